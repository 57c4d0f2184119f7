// Locks with clang thread-safety annotations. The lock order is in sentry/README.md.
#pragma once
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
  void lock() UKS_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() UKS_TSA(release_capability()) { mutex_.unlock(); }
  bool try_lock() UKS_TSA(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
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
