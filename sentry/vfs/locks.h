// Advisory file locks of one inode: POSIX and OFD record locks, and flock(2).
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "platform/base/result.h"
#include "sentry/task/task.h"
#include "sentry/task/wait_queue.h"

namespace uks {

class File;

struct RecordLock {
  int64_t start = 0;
  int64_t end = INT64_MAX;  // inclusive; INT64_MAX: to the end of the file, however it grows
  bool exclusive = false;
  const void* owner = nullptr;  // the FdTable (POSIX) or the File (OFD)
  pid_t pid = 0;                // as F_GETLK reports it; -1 for OFD
};

class FileLocks {
 public:
  FileLocks() = default;
  FileLocks(const FileLocks&) = delete;
  FileLocks& operator=(const FileLocks&) = delete;
  ~FileLocks();

  // The first lock that `wanted` would conflict with, or null.
  const RecordLock* conflict(const RecordLock& wanted) const;
  // Sets `wanted` over whatever its owner holds there. EAGAIN on a conflict, ENOLCK for too many.
  Result<void> set(const RecordLock& wanted);
  // ENOLCK: a hole in a range makes two of it, and there are too many.
  Result<void> unlock(const void* owner, int64_t start, int64_t end);

  // flock(2) for one open file description. EWOULDBLOCK on a conflict. A conversion gives the old
  // lock up first, as Linux does.
  Result<void> set_flock(const File& file, bool exclusive);
  void drop_flock(const File& file);

  // close(2) by a table: its POSIX locks go.
  void release_owner(const void* owner) { (void)unlock(owner, 0, INT64_MAX); }  // splits nothing
  // The last close of a description.
  void release_description(const File& file);

  const std::vector<RecordLock>& records() const { return records_; }
  // Woken (EPOLLIN) whenever something was given up.
  WaitQueue& queue() { return queue_; }

 private:
  struct Flock {
    const File* file;
    bool exclusive;
  };
  void carve(const void* owner, int64_t start, int64_t end);
  // ENOLCK: no room for `more` records.
  Result<void> check_room(size_t more) const;
  // Keeps the sandbox's count of records right. After every change.
  void recount();

  size_t counted_ = 0;
  std::vector<RecordLock> records_;
  std::vector<Flock> flocks_;
  WaitQueue queue_;
};

// Says that `owner` waits for `blocker`, while it lives. For deadlock detection of F_SETLKW.
class LockWait : public CallData {
 public:
  LockWait(const void* owner, const void* blocker);
  ~LockWait() override;
  // Would waiting for `blocker` close a circle?
  static bool would_deadlock(const void* owner, const void* blocker);

 private:
  const void* owner_;
  const void* blocker_;
};

}  // namespace uks
