// SleepLock: taken under the kernel lock and kept while that is dropped. Waiters drop it, too.
#pragma once
#include <condition_variable>

#include "sentry/task/kernel_lock.h"

namespace uks {

class SleepLock {
 public:
  // Precondition of all: the caller holds the kernel lock.
  void lock() {
    while (held_) free_.wait(kernel_lock);
    held_ = true;
  }
  void unlock() {
    held_ = false;
    free_.notify_one();
  }

 private:
  bool held_ = false;
  std::condition_variable_any free_;
};

}  // namespace uks
