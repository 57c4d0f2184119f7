// SleepLock: taken under the kernel lock and kept while that is dropped. SleepEvent: what it waits
// with.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "sentry/task/kernel_lock.h"

namespace uks {

// Precondition of everything here: the caller holds the kernel lock.
class SleepEvent {
 public:
  // Returns after the next signal(). Drops the kernel lock the way host calls do, so that the
  // platform has another thread serve meanwhile.
  void wait() {
    const uint64_t seen = signals_;
    Unlocked unlocked;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return signals_ != seen; });
  }
  void signal() {
    {
      const std::lock_guard lock(mutex_);
      signals_++;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t signals_ = 0;  // changed with both locks held
};

class SleepLock {
 public:
  void lock() {
    while (held_) free_.wait();
    held_ = true;
  }
  void unlock() {
    held_ = false;
    free_.signal();
  }

 private:
  bool held_ = false;
  SleepEvent free_;
};

}  // namespace uks
