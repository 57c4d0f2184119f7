// The kernel lock: one mutex over all sentry state (tasks, VFS, wait queues).
//
// Handlers are short and never block, so one lock costs less here than fine-grained ones would: a
// hand-off to the sentry is 5 us, a typical handler 1 us. The lock is NOT held across a gofer call,
// host file I/O or anything else that can block: wrap those in `Unlocked`, and look again at shared
// state afterwards, since another task may have run.
#pragma once
#include "platform/base/mutex.h"

namespace uks {

extern Mutex kernel_lock;

// How the lock is dropped: the platform also sends the replies that wait for it, so that a guest
// that is already served does not wait for another's host call.
extern void (*drop_kernel_lock)();
// How it is taken again.
extern void (*retake_kernel_lock)();

// Drops the kernel lock for a scope. Precondition: the calling thread holds it.
class Unlocked {
 public:
  Unlocked() UKS_TSA(no_thread_safety_analysis) { drop_kernel_lock(); }
  ~Unlocked() UKS_TSA(no_thread_safety_analysis) { retake_kernel_lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
};

// For handlers with much to do: others that wait for the lock get it in between.
inline void yield_kernel_lock() {
  Unlocked unlocked;
  kernel_lock.let_others_in();
}

}  // namespace uks
