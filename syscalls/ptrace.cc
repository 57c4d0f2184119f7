// ptrace(2), which grants nothing: as a kernel with kernel.yama.ptrace_scope = 3
// (security/yama/yama_lsm.c).
#include <sys/ptrace.h>

#include "gen/syscalls.h"
#include "sentry/task/kernel.h"

namespace uks {

Result<int64_t> sys_ptrace(Task& task, int64_t request, int64_t pid, uint64_t addr, uint64_t) {
  if (request == PTRACE_TRACEME) return Err(EPERM);
  // The order of kernel/ptrace.c: SYSCALL_DEFINE4(ptrace), ptrace_attach().
  const auto number = static_cast<pid_t>(pid);
  // Process 1 has no task of its own.
  if (!task.kernel().find_task(number) && !task.kernel().find_group(number)) return Err(ESRCH);
  if (request != PTRACE_ATTACH && request != PTRACE_SEIZE) return Err(ESRCH);  // we trace nobody
  if (request == PTRACE_SEIZE && addr != 0) return Err(EIO);
  return Err(EPERM);
}

}  // namespace uks
