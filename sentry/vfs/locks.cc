// Record locks and flock: conflicts, splitting, release.
#include "sentry/vfs/locks.h"

#include <sys/epoll.h>

#include <algorithm>

namespace uks {
namespace {

// Per inode, and in the whole sandbox; Linux has no such bounds, but a guest must not fill the
// kernel's memory with ranges, nor keep it busy with looking through them.
constexpr size_t kMaxRecords = 16384;
constexpr size_t kMaxAllRecords = 500'000;
size_t all_records = 0;  // under the kernel lock

std::vector<std::pair<const void*, const void*>> waits;  // owner -> blocker, under the kernel lock

}  // namespace

FileLocks::~FileLocks() { all_records -= counted_; }

Result<void> FileLocks::check_room(size_t more) const {
  if (records_.size() + more > kMaxRecords || all_records + more > kMaxAllRecords)
    return Err(ENOLCK);
  return {};
}

void FileLocks::recount() {
  all_records += records_.size() - counted_;
  counted_ = records_.size();
}

const RecordLock* FileLocks::conflict(const RecordLock& wanted) const {
  for (const RecordLock& l : records_) {
    if (l.owner == wanted.owner || l.start > wanted.end || wanted.start > l.end) continue;
    if (l.exclusive || wanted.exclusive) return &l;
  }
  return nullptr;
}

void FileLocks::carve(const void* owner, int64_t start, int64_t end) {
  std::vector<RecordLock> tails;
  std::erase_if(records_, [&](RecordLock& l) {
    if (l.owner != owner || l.start > end || start > l.end) return false;
    RecordLock tail = l;
    bool keep_tail = l.end > end;
    if (keep_tail) tail.start = end + 1;
    if (l.start < start) {
      l.end = start - 1;
      if (keep_tail) tails.push_back(tail);
      return false;
    }
    if (keep_tail) {
      l = tail;
      return false;
    }
    return true;
  });
  records_.insert(records_.end(), tails.begin(), tails.end());
}

Result<void> FileLocks::set(const RecordLock& wanted) {
  if (conflict(wanted)) return Err(EAGAIN);
  TRY(check_room(2));  // itself, and the end of one that it splits
  carve(wanted.owner, wanted.start, wanted.end);
  // Join with neighbours of the same kind, so that lock-by-byte loops stay one range.
  RecordLock merged = wanted;
  std::erase_if(records_, [&](const RecordLock& l) {
    if (l.owner != wanted.owner || l.exclusive != wanted.exclusive) return false;
    if (l.end != INT64_MAX && l.end + 1 == merged.start) {
      merged.start = l.start;
      return true;
    }
    if (merged.end != INT64_MAX && merged.end + 1 == l.start) {
      merged.end = l.end;
      return true;
    }
    return false;
  });
  records_.push_back(merged);
  recount();
  // A downgrade to a shared lock may let readers in.
  if (!wanted.exclusive) queue_.wake(EPOLLIN);
  return {};
}

Result<void> FileLocks::unlock(const void* owner, int64_t start, int64_t end) {
  bool any = false, splits = false;
  for (const RecordLock& l : records_) {
    if (l.owner != owner) continue;
    any = true;
    splits = splits || (l.start < start && l.end > end);
  }
  if (!any) return {};
  if (splits) TRY(check_room(1));
  carve(owner, start, end);
  recount();
  queue_.wake(EPOLLIN);
  return {};
}

Result<void> FileLocks::set_flock(const File& file, bool exclusive) {
  for (const Flock& f : flocks_) {
    if (f.file == &file && f.exclusive == exclusive) return {};
  }
  drop_flock(file);
  for (const Flock& f : flocks_) {
    if (f.exclusive || exclusive) return Err(EWOULDBLOCK);
  }
  flocks_.push_back({&file, exclusive});
  return {};
}

void FileLocks::drop_flock(const File& file) {
  if (std::erase_if(flocks_, [&](const Flock& f) { return f.file == &file; })) queue_.wake(EPOLLIN);
}

void FileLocks::release_description(const File& file) {
  drop_flock(file);
  release_owner(&file);
}

LockWait::LockWait(const void* owner, const void* blocker) : owner_(owner), blocker_(blocker) {
  waits.emplace_back(owner, blocker);
}

LockWait::~LockWait() {
  auto it = std::ranges::find(waits, std::pair(owner_, blocker_));
  if (it != waits.end()) waits.erase(it);
}

bool LockWait::would_deadlock(const void* owner, const void* blocker) {
  // As posix_locks_deadlock(): follow the chain, give up after ten steps.
  for (int i = 0; i < 10; ++i) {
    if (blocker == owner) return true;
    auto it = std::ranges::find_if(waits, [&](auto& w) { return w.first == blocker; });
    if (it == waits.end()) return false;
    blocker = it->second;
  }
  return false;
}

}  // namespace uks
