// File data from and to guest memory.
//
// Files, pipes and sockets take and give bytes in the middle of their work, where the kernel lock
// cannot be dropped. So bytes of the guest are fetched before, and handed to it after: by the
// system call, with the lock dropped.
#pragma once
#include <memory>

#include "platform/platform.h"
#include "sentry/usermem/io.h"

namespace uks {

// Bytes on their way. The first kKept are the host thread's own; a handler uses one such buffer a
// direction.
class Staging {
 public:
  static constexpr size_t kKept = 256 * 1024;
  explicit Staging(bool incoming) : incoming_(incoming) {}
  char* data() { return data_; }
  // Room for n bytes; the first `used` stay.
  void reserve(size_t n, size_t used);

 private:
  bool incoming_;
  char* data_ = nullptr;
  size_t size_ = 0;
  std::unique_ptr<char[]> own_;
};

// What a guest writes. Gives kFetchFirst, with nothing taken, where the bytes did not come along in
// the slot.
class GuestSource final : public IoSource {
 public:
  GuestSource(Task& task, UserIovec ranges);
  size_t remaining() const override { return left_; }
  size_t in_buffer() const override;
  // All n bytes, up to a fault.
  Result<size_t> read(void* dst, size_t n) override;
  Result<std::span<const char>> peek(size_t max) override;
  void advance(size_t n) override;
  // Brings what was asked for last, and up to `ahead` bytes. Drops the kernel lock. EFAULT; EINTR:
  // the task was killed.
  Result<void> fetch(size_t ahead);

 private:
  // Makes n bytes (or all that are left, or that there are) staged ones. kFetchFirst.
  Result<void> stage(size_t n);
  void skip_empty();
  uint64_t address() const {
    return reinterpret_cast<uint64_t>(ranges_[current_].iov_base) + done_;
  }

  Task& task_;
  UserIovec ranges_;
  uint64_t left_;                  // of them, not taken yet
  size_t current_ = 0, done_ = 0;  // where the bytes after the staged ones are
  Staging staging_{false};
  size_t begin_ = 0, end_ = 0;  // staged
  size_t wanted_ = 0;
  bool faulted_ = false;  // right behind the staged ones
};

// What a guest reads. The files' part is over when deliver() is called.
//
// All of it goes the same way, so that it arrives in order and what does not arrive is the end of
// it: in the slot, with the answer, if the stub found that it can be written and there is room;
// else by the sentry.
class GuestSink final : public IoSink {
 public:
  // `room`: takes so much at most before deliver(). `at_once`: nothing waits for the answer.
  GuestSink(Task& task, UserIovec ranges, size_t room = Staging::kKept, bool at_once = false);
  size_t remaining() const override;
  size_t writable() const override;
  std::span<char> prepare(size_t max) override;
  Result<void> commit(size_t n) override;
  // Writes what was taken to the guest, of `n` bytes since the last time. Drops the kernel lock.
  // Returns how many of them arrive; EFAULT: none. What goes in the slot counts as arrived.
  Result<size_t> deliver(size_t n);
  // Of the bytes that deliver() could not write.
  std::span<const char> undelivered() {
    return {staging_.data() + lost_begin_, lost_end_ - lost_begin_};
  }

 private:
  struct Part {
    uint64_t addr, length;
    uint64_t offset;  // in the slot
  };
  enum class Way { kOpen, kSlot, kStaged };
  void skip_empty();
  uint64_t address() const {
    return reinterpret_cast<uint64_t>(ranges_[current_].iov_base) + done_;
  }
  void advance(size_t n);
  // Known to be writable, and not taken yet.
  uint64_t sure() const { return probed_ - std::min(probed_, taken_); }
  bool fits_slot(size_t n) const;
  // What is in the slot is staged instead.
  void spill();

  Task& task_;
  UserIovec ranges_;
  uint64_t left_;
  size_t room_;
  bool at_once_;
  uint64_t probed_ = 0;
  bool probe_fault_ = false;
  uint64_t taken_ = 0;
  size_t current_ = 0, done_ = 0;
  Way way_ = Way::kOpen;
  bool faulted_ = false;  // the last prepare() gave memory that leads nowhere
  Staging staging_{true};
  size_t staged_ = 0;
  std::vector<Part> parts_;  // where the staged bytes go
  // Staged bytes that came out of the slot: the guest may have changed them, they are no file's any
  // more.
  size_t spilled_ = 0;
  size_t lost_begin_ = 0, lost_end_ = 0;
  // In the slot.
  uint64_t offset_ = 0;  // of the last prepare()
  uint32_t orders_before_ = 0;
  uint64_t cursor_before_ = 0;
  size_t slot_parts_ = 0;
  Part slot_part_[UKS_MAX_ORDERS];
};

// Runs write(), which takes from `source`, and again after fetching what it misses.
template <typename F>
auto with_fetched(GuestSource& source, size_t ahead, F write) -> decltype(write()) {
  for (;;) {
    auto r = write();
    if (r || !(r.error() == kFetchFirst)) return r;
    if (auto fetched = source.fetch(ahead); !fetched) return Err(fetched.error());
  }
}

}  // namespace uks
