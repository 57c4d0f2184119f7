// Futex queues and the robust list walk.
#include "sentry/ipc/futex.h"

#include <linux/futex.h>

#include "platform/platform.h"
#include "sentry/usermem/memory_access.h"

namespace uks {

FutexWaiter::~FutexWaiter() { table_.remove(*this); }

void FutexTable::enqueue(const FutexKey& key, FutexWaiter& waiter) {
  remove(waiter);
  auto& queue = queues_[key];
  waiter.key_ = key;
  waiter.position_ = queue.insert(queue.end(), &waiter);
  waiter.queued_ = true;
}

void FutexTable::remove(FutexWaiter& waiter) {
  if (!waiter.queued_) return;
  waiter.queued_ = false;
  auto it = queues_.find(waiter.key_);
  it->second.erase(waiter.position_);
  if (it->second.empty()) queues_.erase(it);
}

int FutexTable::wake(const FutexKey& key, int count, uint32_t bitset) {
  auto it = queues_.find(key);
  if (it == queues_.end()) return 0;
  auto& queue = it->second;
  int told = 0;
  for (auto at = queue.begin(); at != queue.end() && told < count;) {
    FutexWaiter& waiter = **at;
    if (!(waiter.bitset_ & bitset)) {
      ++at;
      continue;
    }
    at = queue.erase(at);
    waiter.queued_ = false;
    waiter.woken_ = true;
    waiter.task_.wake();
    told++;
  }
  if (queue.empty()) queues_.erase(it);
  return told;
}

int FutexTable::requeue(const FutexKey& from, const FutexKey& to, int wake_count, int move_count,
                        int* moved) {
  *moved = 0;
  const int woken = wake(from, wake_count);
  if (from == to || move_count <= 0) return woken;
  auto it = queues_.find(from);
  if (it == queues_.end()) return woken;
  auto& target = queues_[to];
  it = queues_.find(from);  // the insertion may have rehashed
  auto& queue = it->second;
  while (!queue.empty() && *moved < move_count) {
    FutexWaiter* waiter = queue.front();
    target.splice(target.end(), queue, queue.begin());
    waiter->key_ = to;
    ++*moved;
  }
  if (queue.empty()) queues_.erase(it);
  return woken;
}

size_t FutexTable::waiting(const FutexKey& key) const {
  auto it = queues_.find(key);
  return it == queues_.end() ? 0 : it->second.size();
}

Result<FutexKey> FutexTable::key(AddressSpace& mm, UserAddr addr, bool is_private) {
  if (addr.value % 4 != 0) return Err(EINVAL);
  // Without the flag a word of private memory still means (address space, address): such a key is
  // the same with and without the flag here, where Linux tells the two apart. Waking more is
  // allowed.
  if (!is_private) {
    if (auto shared = mm.shared_key(addr.value))
      return FutexKey{shared->first, shared->second, true};
  }
  return FutexKey{reinterpret_cast<uintptr_t>(&mm), addr.value, false};
}

namespace {

struct RobustHead {
  uint64_t next;
  int64_t futex_offset;
  uint64_t pending;
};

struct Burial {
  MemoryAccess& memory;
  AddressSpace& mm;
  pid_t tid;
  std::vector<FutexKey>& to_wake;
  void wake(UserAddr word) {
    if (const auto key = FutexTable::key(mm, word, false)) to_wake.push_back(*key);
  }
};

// One word of handle_futex_death() in kernel/futex/core.c. Returns false when the walk must end.
bool bury(Burial& burial, uint64_t entry, int64_t offset, bool is_pending) {
  const bool pi = entry & 1;
  const UserAddr word{(entry & ~uint64_t{1}) + static_cast<uint64_t>(offset)};
  if (word.value % 4 != 0) return false;
  uint32_t value = 0;
  if (!burial.memory.read(word, &value, sizeof value)) return false;
  if (is_pending && !pi && value == 0) {
    // Unlocked but its waiters were not woken yet.
    burial.wake(word);
    return true;
  }
  if ((value & FUTEX_TID_MASK) != static_cast<uint32_t>(burial.tid)) return true;
  const uint32_t dead = (value & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
  // At once, not with a reply to the stub, which gets none any more.
  if (!burial.memory.write(word, &dead, sizeof dead)) return false;
  // Also without FUTEX_WAITERS: it may have been set, and lost, between the read and the write.
  if (!pi) burial.wake(word);
  return true;
}

}  // namespace

void exit_robust_list(MemoryAccess& memory, AddressSpace& mm, const LastWords& last, int& budget,
                      std::vector<FutexKey>& to_wake) {
  const UserAddr list = last.robust_list;
  RobustHead head{};
  if (!list || !memory.read(list, &head, sizeof head)) return;
  constexpr int kLimit = 2048;
  // Each access may wait for others that change mappings: whoever makes them long gives up the rest
  // of the list.
  constexpr MonotonicNs kMaxTime = 20'000'000;
  const MonotonicNs end = monotonic_now() + kMaxTime;
  Burial burial{memory, mm, last.tid, to_wake};
  uint64_t entry = head.next;
  for (int i = 0;
       i < kLimit && budget > 0 && (entry & ~uint64_t{1}) != list.value && monotonic_now() < end;
       i++, budget--) {
    uint64_t next = 0;
    const bool have_next =
        memory.read(UserAddr{entry & ~uint64_t{1}}, &next, sizeof next).has_value();
    if ((entry & ~uint64_t{1}) != (head.pending & ~uint64_t{1}) &&
        !bury(burial, entry, head.futex_offset, false)) {
      return;
    }
    if (!have_next) return;
    entry = next;
  }
  if (head.pending & ~uint64_t{1}) bury(burial, head.pending, head.futex_offset, true);
}

}  // namespace uks
