// pidfd_open and pidfd_send_signal.
#include "sentry/fs/pidfd/pidfd.h"

#include <fcntl.h>

#include "gen/syscalls.h"
#include "sentry/signal/permission.h"
#include "sentry/task/kernel.h"

namespace uks {

Result<int64_t> sys_pidfd_open(Task& task, int pid, uint32_t flags) {
  if (flags & ~uint32_t{O_NONBLOCK}) return Err(EINVAL);
  if (pid <= 0) return Err(EINVAL);
  ThreadGroup* group = task.kernel().find_group(pid);
  // A thread that leads no process: EINVAL before Linux 6.9, which we do not claim to be past.
  if (!group) return Err(task.kernel().find_task(pid) ? EINVAL : ESRCH);
  return TRY(install_pidfd(task, *group, static_cast<int>(flags)));
}

Result<int64_t> sys_pidfd_send_signal(Task& task, int pidfd, int signum, UserIn info,
                                      uint32_t flags) {
  if (flags) return Err(EINVAL);
  const Ref<ThreadGroup> group = TRY(group_of_pidfd(task, pidfd));
  if (signum < 0 || signum > kSignalCount) return Err(EINVAL);
  SignalInfo out;
  if (info) {
    out = TRY(task.copy_in<SignalInfo>(info));
    if (out.signo != signum) return Err(EINVAL);
    if ((out.code >= 0 || out.code == SI_TKILL) && group.get() != &task.group()) return Err(EPERM);
  } else {
    out = user_signal(task, signum, SI_USER);
  }
  if (!group->parent) return Err(ESRCH);  // reaped
  TRY(check_kill_permission(task, *group, signum));
  if (signum) task.kernel().send_signal(*group, out);
  return 0;
}

}  // namespace uks
