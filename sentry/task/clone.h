// Making tasks and processes: fork, vfork, clone, clone3.
#pragma once
#include "sentry/task/task.h"

namespace uks {

struct CloneRequest {
  uint64_t flags = 0;  // CLONE_*, without the exit signal
  int exit_signal = 0;
  uint64_t stack = 0;  // the child's stack pointer; 0: the parent's
  UserAddr parent_tid;
  UserAddr child_tid;
  UserAddr pidfd;  // CLONE_PIDFD: where its number goes
  uint64_t tls = 0;
  pid_t set_tid = 0;
};

// Orders the clone; the call is answered when the stub has made it (kNoReply), or an error.
Result<int64_t> clone_task(Task& parent, const CloneRequest& request);

// Tasks of the real user `user`, zombies included: what RLIMIT_NPROC counts.
uint64_t count_tasks(const Kernel& kernel, uid_t user);

// Notes whether the task's real user, who is a new one, has more than RLIMIT_NPROC allows:
// execve(2) asks again then and fails, so that a program that does not look at setuid's answer gets
// no further (flag_nproc_exceeded()).
void note_process_limit(Task& task);
// EAGAIN: the limit was exceeded at the change of user and still is.
Result<void> check_process_limit_at_exec(Task& task);

// A vfork parent goes on: its child has left the shared memory.
void release_vfork_parent(Kernel& kernel, Task& child);

}  // namespace uks
