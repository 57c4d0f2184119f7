// Locks with clang thread-safety annotations. The lock order is in sentry/README.md.
#pragma once
#include <time.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#if defined(__clang__)
#define UKS_TSA(x) __attribute__((x))
#else
#define UKS_TSA(x)
#endif
#define GUARDED_BY(x) UKS_TSA(guarded_by(x))
#define REQUIRES(...) UKS_TSA(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) UKS_TSA(locks_excluded(__VA_ARGS__))

namespace uks {

class UKS_TSA(capability("mutex")) Mutex {
 public:
  void lock() UKS_TSA(acquire_capability()) {
    if (mutex_.try_lock()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    turns_.fetch_add(1, std::memory_order_relaxed);
  }
  void unlock() UKS_TSA(release_capability()) { mutex_.unlock(); }
  bool try_lock() UKS_TSA(try_acquire_capability(true)) { return mutex_.try_lock(); }
  // For the thread that has just unlocked it to let others have their turn: returns when one that
  // waited has had it (or after some milliseconds). Without this the thread would be back before
  // the one it woke.
  void let_others_in() const {
    const uint32_t before = turns_.load(std::memory_order_relaxed);
    for (int tries = 0; tries < 100; tries++) {
      if (waiting_.load(std::memory_order_relaxed) == 0) return;
      if (turns_.load(std::memory_order_relaxed) != before) return;
      const timespec pause{0, 10'000};
      nanosleep(&pause, nullptr);
    }
  }

 private:
  std::mutex mutex_;
  std::atomic<uint32_t> waiting_{0};  // threads that found it taken
  std::atomic<uint32_t> turns_{0};    // how often such a thread got it
};

class UKS_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& m) UKS_TSA(acquire_capability(m)) : mutex_(m) { mutex_.lock(); }
  ~MutexLock() UKS_TSA(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace uks
