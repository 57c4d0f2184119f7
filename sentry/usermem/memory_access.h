// MemoryAccess: the way into guest memory beyond what came along in a slot.
#pragma once
#include "platform/platform.h"
#include "sentry/task/task.h"

namespace uks {

// Drops the kernel lock for its lifetime, since an access takes as long as the guest likes: the
// page may be of a file that hangs, other threads may be changing mappings. Look again at
// everything afterwards, the task first.
class MemoryAccess {
 public:
  // `group`: whose waiting it is. The address space may be one that it has left, or another's.
  // `own`: the thread whose call it is for, if it lives there. `atomic`: that one's stub does it
  // always, for cmpxchg32() against the guest's other threads.
  MemoryAccess(ThreadGroup& group, Ref<AddressSpace> mm, GuestThread* own = nullptr,
               bool atomic = false);
  ~MemoryAccess();
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;

  Result<void> read(UserAddr from, void* to, size_t n) {
    TRY(way_);
    return mm_->read(copier_.get(), from.value, to, n);
  }
  Result<void> write(UserAddr to, const void* from, size_t n) {
    TRY(way_);
    return mm_->write(copier_.get(), to.value, from, n);
  }
  Result<size_t> read_some(UserAddr from, void* to, size_t n) {
    TRY(way_);
    return mm_->read_some(copier_.get(), from.value, to, n, &readable_);
  }
  Result<size_t> write_some(UserAddr to, const void* from, size_t n) {
    TRY(way_);
    return mm_->write_some(copier_.get(), to.value, from, n, &writable_);
  }
  Result<uint32_t> cmpxchg32(UserAddr at, uint32_t expected, uint32_t desired) {
    TRY(way_);
    return mm_->cmpxchg32(copier_.get(), at.value, expected, desired);
  }

 private:
  Ref<ThreadGroup> group_;
  Ref<AddressSpace> mm_;
  Result<void> way_;  // EIO: there is none
  Ref<GuestThread> copier_;
  AddressSpace::Allowed readable_, writable_;
  MonotonicNs start_ = 0;
};

// access(MemoryAccess&) on the task's memory. EFAULT: it has none; EINTR: it was killed meanwhile.
template <typename F>
auto with_memory(Task& task, F access, bool atomic = false)
    -> decltype(access(std::declval<MemoryAccess&>())) {
  if (!task.mm) return Err(EFAULT);
  decltype(access(std::declval<MemoryAccess&>())) result = Err(EFAULT);
  {
    MemoryAccess memory(task.group(), task.mm, task.thread.get(), atomic);
    result = access(memory);
  }
  if (task.dead) return Err(EINTR);
  return result;
}

}  // namespace uks
