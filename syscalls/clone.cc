// fork, vfork, clone, clone3, and the namespace calls beside them.
#include "sentry/task/clone.h"

#include <linux/sched.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "gen/syscalls.h"
#include "sentry/task/kernel.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"

namespace uks {
namespace {

constexpr uint64_t kExitSignalMask = 0xff;

}  // namespace

Result<int64_t> sys_fork(Task& task) {
  CloneRequest request;
  request.exit_signal = SIGCHLD;
  return clone_task(task, request);
}

Result<int64_t> sys_vfork(Task& task) {
  CloneRequest request;
  request.flags = CLONE_VM | CLONE_VFORK;
  request.exit_signal = SIGCHLD;
  return clone_task(task, request);
}

Result<int64_t> sys_clone(Task& task, uint64_t flags, UserAddr stack, UserAddr parent_tid,
                          UserAddr child_tid, uint64_t tls) {
  CloneRequest request;
  request.flags = flags & 0xffffffff & ~kExitSignalMask;
  request.exit_signal = static_cast<int>(flags & kExitSignalMask);
  if (request.exit_signal > kSignalCount) return Err(EINVAL);
  if (request.flags & CLONE_THREAD) request.exit_signal = 0;
  request.stack = stack.value;
  request.parent_tid = parent_tid;
  request.child_tid = child_tid;
  request.tls = tls;
  // The old call has one place for both.
  if ((request.flags & CLONE_PIDFD) && (request.flags & CLONE_PARENT_SETTID)) return Err(EINVAL);
  request.pidfd = parent_tid;
  return clone_task(task, request);
}

Result<int64_t> sys_clone3(Task& task, UserIn args, uint64_t size) {
  // copy_struct_from_user(): known fields, and zeros behind them.
  if (size > 4096) return Err(E2BIG);
  if (size < CLONE_ARGS_SIZE_VER0) return Err(EINVAL);
  clone_args value{};
  TRY(task.copy_in(args, &value, std::min<uint64_t>(size, sizeof value)));
  if (size > sizeof value) {
    std::array<char, 4096> rest;
    const size_t n = size - sizeof value;
    TRY(task.copy_in(args + sizeof value, rest.data(), n));
    if (std::any_of(rest.begin(), rest.begin() + n, [](char c) { return c != 0; }))
      return Err(E2BIG);
  }
  if (value.flags & (kExitSignalMask | CLONE_DETACHED)) return Err(EINVAL);
  if (value.exit_signal > static_cast<uint64_t>(kSignalCount)) return Err(EINVAL);
  if ((value.flags & (CLONE_THREAD | CLONE_PARENT)) && value.exit_signal) return Err(EINVAL);
  if ((value.stack == 0) != (value.stack_size == 0)) return Err(EINVAL);
  if (value.set_tid_size) return Err(EPERM);  // needs CAP_CHECKPOINT_RESTORE
  if ((value.flags & CLONE_SIGHAND) && (value.flags & CLONE_CLEAR_SIGHAND)) return Err(EINVAL);
  CloneRequest request;
  request.flags = value.flags;
  request.exit_signal = static_cast<int>(value.exit_signal);
  request.stack = value.stack ? value.stack + value.stack_size : 0;
  request.parent_tid = {value.parent_tid};
  request.child_tid = {value.child_tid};
  request.tls = value.tls;
  request.pidfd = {value.pidfd};
  return clone_task(task, request);
}

Result<int64_t> sys_unshare(Task& task, uint64_t flags) {
  constexpr uint64_t kKnown =
      CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_VM | CLONE_THREAD | CLONE_SYSVSEM;
  constexpr uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                   CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME;
  if (flags & ~(kKnown | kNamespaces)) return Err(EINVAL);
  if (flags & kNamespaces) return Err(EPERM);
  if ((flags & (CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)) && task.group().threads.size() > 1)
    return Err(EINVAL);
  if (flags & CLONE_FILES) task.fd_table = task.fd_table->clone();
  if (flags & CLONE_FS) task.fs_context = task.fs_context->clone();
  return 0;
}

}  // namespace uks
