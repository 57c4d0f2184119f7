// Signals: actions, masks, sending, waiting.
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "gen/syscalls.h"
#include "sentry/signal/defaults.h"
#include "sentry/signal/permission.h"
#include "sentry/task/kernel.h"
#include "sentry/time/group_timers.h"
#include "syscalls/dispatch.h"

namespace uks {
namespace {

constexpr uint64_t kSigsetSize = 8;
// UAPI_SA_FLAGS of include/linux/signal_types.h, and SA_RESTORER: other bits read back as 0, by
// which programs find out what is known.
constexpr uint64_t kActionFlags = SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK |
                                  SA_RESTART | SA_NODEFER | uint64_t{SA_RESETHAND} |
                                  0x800 /* SA_EXPOSE_TAGBITS */ | 0x04000000 /* SA_RESTORER */;

// rt_sigtimedwait: what is waited for, read once, and the mask to put back.
struct WaitedSet final : CallData {
  WaitedSet(SignalMask waited, SignalMask mask) : wanted(waited), old_mask(mask) {}
  SignalMask wanted;
  SignalMask old_mask;
};

void end_signal_wait(Task& task) {
  if (!task.call().data) return;
  task.kernel().set_blocked(task, static_cast<const WaitedSet&>(*task.call().data).old_mask);
  task.awaited_signals = 0;
  task.call().data.reset();
}

// check_kill_permission() has it first, but comes only when there is somebody to send to.
Result<void> check_signal_number(int signo) {
  if (signo < 0 || signo > kSignalCount) return Err(EINVAL);
  return {};
}

Result<int64_t> send_to_thread(Task& task, int tgid, int tid, int signo, const SignalInfo& info) {
  Task* target = task.kernel().find_task(tid);
  if (!target || (tgid > 0 && target->tgid() != tgid)) return Err(ESRCH);
  TRY(check_signal_number(signo));
  TRY(check_kill_permission(task, target->group(), signo));
  if (signo && !task.kernel().send_signal(*target, info)) return Err(EAGAIN);
  return 0;
}

// What a process may claim about the origin of a queued signal (do_rt_sigqueueinfo()).
Result<SignalInfo> copy_in_info(Task& task, UserAddr from, int signo, pid_t target) {
  SignalInfo info = TRY(task.copy_in<SignalInfo>(from));
  info.signo = signo;
  if ((info.code >= 0 || info.code == SI_TKILL) && target != task.tgid()) return Err(EPERM);
  return info;
}

}  // namespace

Result<int64_t> sys_rt_sigaction(Task& task, int signum, UserIn act, UserOut oldact,
                                 uint64_t sigsetsize) {
  if (sigsetsize != kSigsetSize) return Err(EINVAL);
  GuestSigaction action;
  if (act) action = TRY(task.copy_in<GuestSigaction>(act));
  if (signum < 1 || signum > kSignalCount) return Err(EINVAL);
  ThreadGroup& group = task.group();
  const GuestSigaction old = (*group.actions)[signum];
  if (act) {
    if (signum == SIGKILL || signum == SIGSTOP) return Err(EINVAL);
    action.mask &= ~kUnblockable;
    action.flags &= kActionFlags;
    (*group.actions)[signum] = action;
    // POSIX: setting an action that ignores discards what is pending.
    if (action.handler == 1 ||
        (action.handler == 0 && default_action(signum) == DefaultAction::kIgnore)) {
      group.pending.remove(signal_bit(signum));
      for (Task* thread : group.threads) thread->pending.remove(signal_bit(signum));
    } else if (group.timers) {
      GroupTimers::of(group).on_heeded(signum);
    }
  }
  if (oldact) TRY(task.copy_out(oldact, old));
  return 0;
}

Result<int64_t> sys_rt_sigprocmask(Task& task, int how, UserIn set, UserOut oldset,
                                   uint64_t sigsetsize) {
  if (sigsetsize != kSigsetSize) return Err(EINVAL);
  const SignalMask old = task.blocked_signals;
  if (set) {
    const SignalMask mask = TRY(task.copy_in<SignalMask>(set)) & ~kUnblockable;
    switch (how) {
      case SIG_BLOCK:
        task.kernel().set_blocked(task, old | mask);
        break;
      case SIG_UNBLOCK:
        task.kernel().set_blocked(task, old & ~mask);
        break;
      case SIG_SETMASK:
        task.kernel().set_blocked(task, mask);
        break;
      default:
        return Err(EINVAL);
    }
  }
  if (oldset) TRY(task.copy_out(oldset, old));
  return 0;
}

Result<int64_t> sys_rt_sigpending(Task& task, UserOut set, uint64_t sigsetsize) {
  if (sigsetsize > kSigsetSize) return Err(EINVAL);
  const SignalMask pending =
      (task.pending.pending() | task.group().pending.pending()) & task.blocked_signals;
  TRY(task.copy_out(set, &pending, sigsetsize));
  return 0;
}

Result<int64_t> sys_rt_sigsuspend(Task& task, UserIn mask, uint64_t sigsetsize) {
  if (sigsetsize != kSigsetSize) return Err(EINVAL);
  if (!task.call().woken) {
    const SignalMask wanted = TRY(task.copy_in<SignalMask>(mask)) & ~kUnblockable;
    task.saved_mask = task.blocked_signals;
    task.kernel().set_blocked(task, wanted);
  }
  return Err(task.block({}, {}, kRestartNoHand));
}

Result<int64_t> sys_pause(Task& task) { return Err(task.block({}, {}, kRestartNoHand)); }

Result<int64_t> sys_rt_sigtimedwait(Task& task, UserIn set, UserOut info, UserIn timeout,
                                    uint64_t sigsetsize) {
  if (sigsetsize != kSigsetSize) return Err(EINVAL);
  CallState& call = task.call();
  const SignalMask wanted = call.data ? static_cast<const WaitedSet&>(*call.data).wanted
                                      : TRY(task.copy_in<SignalMask>(set)) & ~kUnblockable;
  if (!call.woken && timeout) {
    const auto ts = TRY(task.copy_in<timespec>(timeout));
    if (ts.tv_sec < 0 || ts.tv_nsec < 0 || ts.tv_nsec >= 1'000'000'000) return Err(EINVAL);
    const int64_t seconds = std::min<int64_t>(ts.tv_sec, 1'000'000'000);
    call.deadline = monotonic_now() + seconds * 1'000'000'000 + ts.tv_nsec;
  }
  SignalInfo found;
  if (task.kernel().take_signal(task, ~wanted, found)) {
    end_signal_wait(task);
    if (info) TRY(task.copy_out(info, found));
    return found.signo;
  }
  if (call.timed_out) {
    end_signal_wait(task);
    return Err(EAGAIN);
  }
  // While waiting, the wanted signals count as unblocked so that they wake us (do_sigtimedwait()).
  if (!call.data) {
    call.data = std::make_unique<WaitedSet>(wanted, task.blocked_signals);
    task.blocked_signals &= ~wanted;
    task.awaited_signals = wanted;
  }
  const Errno waiting = task.block({}, call.deadline, EINTR);
  if (waiting.value != kBlocked) end_signal_wait(task);
  return Err(waiting);
}

Result<int64_t> sys_kill(Task& task, int pid, int signum) {
  Kernel& kernel = task.kernel();
  const SignalInfo info = user_signal(task, signum, SI_USER);
  if (pid > 0) {
    ThreadGroup* target = kernel.find_group(pid);
    if (!target) {
      Task* thread = kernel.find_task(pid);
      if (!thread) return Err(ESRCH);
      target = &thread->group();
    }
    TRY(check_signal_number(signum));
    TRY(check_kill_permission(task, *target, signum));
    if (signum) kernel.send_signal(*target, info);
    return 0;
  }
  if (pid == INT32_MIN) return Err(ESRCH);
  // A process group, or everybody but init and ourselves.
  const pid_t pgid = pid == 0 ? task.group().pgid : -pid;
  std::vector<Ref<ThreadGroup>> targets;
  for (const auto& [id, group] : kernel.groups()) {
    if (pid == -1 ? (id != 1 && group.get() != &task.group()) : (group->pgid == pgid && id != 1)) {
      targets.push_back(group);
    }
  }
  if (targets.empty()) return Err(ESRCH);
  TRY(check_signal_number(signum));
  bool sent = false;
  Errno failure{EPERM};
  for (const auto& group : targets) {
    if (auto allowed = check_kill_permission(task, *group, signum); !allowed) {
      failure = allowed.error();
      continue;
    }
    sent = true;
    if (signum) kernel.send_signal(*group, info);
  }
  if (!sent && pid != -1) return Err(failure);
  if (task.dead) return Err(kNoReply);
  return 0;
}

Result<int64_t> sys_tgkill(Task& task, int tgid, int tid, int signum) {
  if (tgid <= 0 || tid <= 0) return Err(EINVAL);
  return send_to_thread(task, tgid, tid, signum, user_signal(task, signum, SI_TKILL));
}

Result<int64_t> sys_tkill(Task& task, int tid, int signum) {
  if (tid <= 0) return Err(EINVAL);
  return send_to_thread(task, 0, tid, signum, user_signal(task, signum, SI_TKILL));
}

Result<int64_t> sys_rt_sigqueueinfo(Task& task, int pid, int signum, UserIn info) {
  const SignalInfo value = TRY(copy_in_info(task, info, signum, pid));
  ThreadGroup* target = task.kernel().find_group(pid);
  if (!target) return Err(ESRCH);
  TRY(check_signal_number(signum));
  TRY(check_kill_permission(task, *target, signum));
  if (signum && !task.kernel().send_signal(*target, value)) return Err(EAGAIN);
  return 0;
}

Result<int64_t> sys_rt_tgsigqueueinfo(Task& task, int tgid, int tid, int signum, UserIn info) {
  if (tgid <= 0 || tid <= 0) return Err(EINVAL);
  const SignalInfo value = TRY(copy_in_info(task, info, signum, tgid));
  return send_to_thread(task, tgid, tid, signum, value);
}

Result<int64_t> sys_sigaltstack(Task& task, UserIn ss, UserOut old_ss) {
  struct GuestStack {
    uint64_t base;
    int32_t flags;
    int32_t pad;
    uint64_t size;
  };
  constexpr int kAutodisarm = static_cast<int>(1U << 31);
  constexpr uint64_t kMinStack = 2048;  // MINSIGSTKSZ of the kernel
  const AltStack old = task.alt_stack;
  const uint64_t sp = task.thread->sp;
  const bool on_stack =
      !(old.flags & (SS_DISABLE | kAutodisarm)) && sp > old.base && sp - old.base <= old.size;
  if (ss) {
    const auto wanted = TRY(task.copy_in<GuestStack>(ss));
    if (on_stack) return Err(EPERM);
    const int mode = wanted.flags & ~kAutodisarm;
    if (mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE) return Err(EINVAL);
    if (mode == SS_DISABLE) {
      task.alt_stack = {};
    } else {
      if (wanted.size < kMinStack) return Err(ENOMEM);
      task.alt_stack = {wanted.base, wanted.size, wanted.flags & kAutodisarm};
    }
  }
  if (old_ss) {
    GuestStack out{old.base, old.flags, 0, old.size};
    if (old.flags & SS_DISABLE)
      out = {0, SS_DISABLE, 0, 0};
    else if (on_stack)
      out.flags |= SS_ONSTACK;
    TRY(task.copy_out(old_ss, out));
  }
  return 0;
}

Result<int64_t> sys_restart_syscall(Task& task) {
  // The call that a signal without handler interrupted goes on, with its old deadline.
  if (!task.call().woken) {
    const Task::RestartBlock block = task.restart_block;
    if (block.nr == ~uint64_t{0} || block.nr == SYS_restart_syscall) return Err(EINTR);
    task.restart_block = {};
    task.syscall_nr = block.nr;
    task.syscall_args = block.args;
    task.call().deadline = block.deadline;
    task.call().woken = true;
  }
  return dispatch_call(task);
}

}  // namespace uks
