// Process ids, groups, sessions, and the end of processes.
#include "gen/syscalls.h"
#include "sentry/task/kernel.h"

namespace uks {

Result<int64_t> sys_getpid(Task& task) { return task.tgid(); }
Result<int64_t> sys_gettid(Task& task) { return task.tid(); }

Result<int64_t> sys_getppid(Task& task) {
  const ThreadGroup* parent = task.group().parent;
  return parent ? parent->pid : 0;
}

Result<int64_t> sys_getpgrp(Task& task) { return task.group().pgid; }

Result<int64_t> sys_getpgid(Task& task, int pid) {
  if (pid == 0) return task.group().pgid;
  if (const ThreadGroup* group = task.kernel().find_group(pid)) return group->pgid;
  const Task* other = task.kernel().find_task(pid);
  if (!other) return Err(ESRCH);
  return const_cast<Task*>(other)->group().pgid;
}

Result<int64_t> sys_getsid(Task& task, int pid) {
  if (pid == 0) return task.group().session->id;
  const ThreadGroup* group = task.kernel().find_group(pid);
  if (!group) return Err(ESRCH);
  return group->session->id;
}

Result<int64_t> sys_setpgid(Task& task, int pid, int pgid) {
  // The checks of setpgid() in kernel/sys.c, in its order.
  if (pgid < 0) return Err(EINVAL);
  ThreadGroup& self = task.group();
  ThreadGroup* group = pid == 0 ? &self : task.kernel().find_group(pid);
  if (!group) return Err(ESRCH);
  if (pgid == 0) pgid = group->pid;
  if (group->parent == &self) {
    if (group->session != self.session) return Err(EPERM);
    if (group->did_exec) return Err(EACCES);
  } else if (group != &self) {
    return Err(ESRCH);
  }
  if (group->session->id == group->pid) return Err(EPERM);
  if (pgid != group->pid) {
    bool found = false;
    for (const auto& [id, other] : task.kernel().groups()) {
      if (other->pgid == pgid && other->session == self.session) found = true;
    }
    if (!found) return Err(EPERM);
  }
  group->pgid = pgid;
  return 0;
}

Result<int64_t> sys_setsid(Task& task) {
  ThreadGroup& self = task.group();
  for (const auto& [id, other] : task.kernel().groups()) {
    if (other->pgid == self.pid) return Err(EPERM);
  }
  self.session = make_ref<Session>(self.pid);
  self.pgid = self.pid;
  return self.pid;
}

Result<int64_t> sys_set_tid_address(Task& task, UserAddr tidptr) {
  task.clear_child_tid = tidptr;
  return task.tid();
}

Result<int64_t> sys_exit(Task& task, int status) {
  task.kernel().exit_task(task, (status & 0xff) << 8);
  return Err(kNoReply);
}

Result<int64_t> sys_exit_group(Task& task, int status) {
  task.kernel().exit_group(task.group(), (status & 0xff) << 8);
  return Err(kNoReply);
}

Result<int64_t> sys_personality(Task& task, uint32_t persona) {
  // PER_LINUX is all there is; the flag is remembered, addresses stay random. 0xffffffff asks.
  constexpr uint32_t kAddrNoRandomize = 0x0040000;
  const uint32_t old = task.group().personality;
  if (persona == 0xffffffff) return old;
  if (persona & ~kAddrNoRandomize) return Err(EINVAL);
  task.group().personality = persona;
  return old;
}

Result<int64_t> sys_arch_prctl(Task&, int, uint64_t) {
  // The fs and gs bases never come here: the stub sets them. Nothing else is offered (CET, CPUID
  // faulting).
  return Err(EINVAL);
}

}  // namespace uks
