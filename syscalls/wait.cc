// wait4 and waitid.
#include "sentry/task/wait.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "gen/syscalls.h"
#include "sentry/fs/pidfd/pidfd.h"
#include "sentry/task/kernel.h"

#ifndef __WNOTHREAD
#define __WNOTHREAD 0x20000000
#define __WALL 0x40000000
#define __WCLONE 0x80000000
#endif

namespace uks {
namespace {

constexpr int kPidfd = 3;  // P_PIDFD
constexpr unsigned kCloneOptions =
    static_cast<unsigned>(__WNOTHREAD) | __WALL | static_cast<unsigned>(__WCLONE);

Result<void> put_rusage(Task& task, UserAddr to, const WaitResult& result) {
  if (!to) return {};
  rusage usage{};
  usage.ru_utime = {static_cast<time_t>(result.user_ns / 1'000'000'000),
                    static_cast<suseconds_t>(result.user_ns / 1000 % 1'000'000)};
  usage.ru_stime = {static_cast<time_t>(result.system_ns / 1'000'000'000),
                    static_cast<suseconds_t>(result.system_ns / 1000 % 1'000'000)};
  return task.copy_out(to, usage);
}

}  // namespace

Result<int64_t> sys_wait4(Task& task, int pid, UserOut status, int options, UserOut rusage) {
  if (static_cast<unsigned>(options) & ~(WNOHANG | WUNTRACED | WCONTINUED | kCloneOptions))
    return Err(EINVAL);
  if (pid == INT32_MIN) return Err(ESRCH);
  WaitRequest request;
  if (pid > 0) {
    request.kind = WaitRequest::Kind::kPid;
    request.id = pid;
  } else if (pid != -1) {
    request.kind = WaitRequest::Kind::kGroup;
    request.id = pid == 0 ? task.group().pgid : -pid;
  }
  request.options = options | WEXITED;
  const auto result = TRY(wait_for_child(task, request));
  if (!result) return 0;
  if (status) TRY(task.copy_out(status, static_cast<int32_t>(result->status)));
  TRY(put_rusage(task, rusage, *result));
  return result->pid;
}

Result<int64_t> sys_waitid(Task& task, int which, int pid, UserOut info, int options,
                           UserOut rusage) {
  if (static_cast<unsigned>(options) &
      ~(WNOHANG | WNOWAIT | WEXITED | WSTOPPED | WCONTINUED | kCloneOptions)) {
    return Err(EINVAL);
  }
  if (!(options & (WEXITED | WSTOPPED | WCONTINUED))) return Err(EINVAL);
  WaitRequest request;
  switch (which) {
    case P_ALL:
      break;
    case P_PID:
      if (pid <= 0) return Err(EINVAL);
      request.kind = WaitRequest::Kind::kPid;
      request.id = pid;
      break;
    case P_PGID:
      if (pid < 0) return Err(EINVAL);
      request.kind = WaitRequest::Kind::kGroup;
      request.id = pid == 0 ? task.group().pgid : pid;
      break;
    case kPidfd: {
      const Ref<ThreadGroup> group = TRY(group_of_pidfd(task, pid));
      request.kind = WaitRequest::Kind::kPid;
      request.id = group->pid;
      break;
    }
    default:
      return Err(EINVAL);
  }
  request.options = options;
  const auto result = TRY(wait_for_child(task, request));
  if (info) {
    SignalInfo out;
    if (result) {
      out.signo = SIGCHLD;
      out.code = result->code;
      out.child.pid = result->pid;
      out.child.uid = result->uid;
      out.child.status = result->code == CLD_EXITED      ? WEXITSTATUS(result->status)
                         : result->code == CLD_CONTINUED ? SIGCONT
                         : result->code == CLD_STOPPED   ? WSTOPSIG(result->status)
                                                         : WTERMSIG(result->status);
    }
    // These fields and no others are written.
    static_assert(offsetof(SignalInfo, child.status) == 24);
    TRY(task.copy_out(info, &out, offsetof(SignalInfo, child.status) + sizeof out.child.status));
  }
  if (result) TRY(put_rusage(task, rusage, *result));
  return 0;
}

}  // namespace uks
