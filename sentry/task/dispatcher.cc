#include "sentry/task/dispatcher.h"

#include <sys/syscall.h>

#include <chrono>
#include <cstring>

#include "platform/base/check.h"
#include "platform/base/log.h"
#include "platform/channel/shared_cell.h"
#include "sentry/signal/defaults.h"
#include "sentry/task/kernel_lock.h"

namespace uks {

void Dispatcher::on_handoff(GuestThread& thread) {
  const Ref<Task> task(thread.task);
  LOG_TRACE("task {}: event {} nr {} result {} ip {:#x}", task->tid(), thread.event, thread.nr,
            thread.result, thread.ip);
  switch (thread.event) {
    case UKS_EVENT_SYSCALL:
      task->call_ = {};
      task->syscall_nr = thread.nr;
      task->syscall_args = thread.args;
      run_call(*task);
      return;
    case UKS_EVENT_FAULT:
      on_fault(*task, thread);
      return;
    case UKS_EVENT_SIGRETURN:
      on_sigreturn(*task, thread);
      return;
    case UKS_EVENT_DONE:
    case UKS_EVENT_CLONED:
      thread.clear_data();
      if (task->continuation) {
        auto continuation = std::move(task->continuation);
        continuation->resume(*task, thread.result);
      } else if (task->delivering_signal) {
        // The stack cannot take a frame: force_sigsegv() in the kernel.
        const int signo = std::exchange(task->delivering_signal, 0);
        if (signo == SIGSEGV) (*task->group().actions)[SIGSEGV] = {};
        SignalInfo info;
        info.signo = SIGSEGV;
        info.code = SI_KERNEL;
        force_signal(*task, info);
        resume(*task, {}, 0);
      } else {
        resume(*task, {}, 0);
      }
      return;
    default:  // UKS_EVENT_KICK, or a lie
      thread.clear_data();
      resume(*task, {}, 0);
      return;
  }
}

void Dispatcher::on_started(GuestThread& thread) {
  const Ref<Task> task(thread.task);
  if (task->continuation) {
    auto continuation = std::move(task->continuation);
    continuation->resume(*task, 0);
    return;
  }
  resume(*task, 0, 0);
}

void Dispatcher::on_gone(GuestThread& thread) {
  LOG_DEBUG("task {}: its host thread {} died", thread.task->tid(), thread.host_tid);
  // The host killed the stub (out of memory, an operator), or it was hostile: the guest process
  // ends as by SIGKILL.
  const Ref<Task> task(thread.task);
  thread.task = nullptr;
  task->thread = nullptr;
  if (!task->dead) kernel_.exit_group(task->group(), SIGKILL);
}

void Dispatcher::on_pool_refilled() {
  kernel_.stub_waiters.wake(EPOLLIN, 1);
  const std::lock_guard lock(refill_mutex_);
  refills_++;
  refilled_.notify_all();
}

bool Dispatcher::wait_for_refill(uint64_t seen, int seconds) {
  std::unique_lock lock(refill_mutex_);
  return refilled_.wait_for(lock, std::chrono::seconds(seconds), [&] { return refills_ != seen; });
}

Dispatcher::SweepTimer::SweepTimer(Kernel& k) : Timer(k.timers), kernel(k) {}
void Dispatcher::SweepTimer::on_expire() { kernel.platform->sweep(); }

void Dispatcher::sweep_later(int64_t milliseconds) {
  const MonotonicNs deadline = monotonic_now() + milliseconds * 1'000'000;
  if (!sweep_timer_.armed() || sweep_timer_.deadline() > deadline) sweep_timer_.arm(deadline);
}

void Dispatcher::on_fatal(const char* reason) {
  LOG_ERROR("{}", reason);
  kernel_.platform->keeper().send(keeper::Op::kMessage, 0, 0, std::string("internal: ") + reason);
  kernel_.platform->keeper().send(keeper::Op::kExit, 0, -1);
}

void Dispatcher::run_pending() {
  if (!has_pending() || !kernel_.platform->should_run_handlers()) return;
  for (; has_pending(); run_next()) {
  }
}

bool Dispatcher::has_pending() const {
  return !kernel_.run_queue_.empty() || !farewells.empty() || slow_lane.has_ready();
}

void Dispatcher::run_next() {
  if (!farewells.empty()) {
    const Ref<Farewell> farewell = std::move(farewells.front());
    farewells.pop_front();
    farewell->say();
    return;
  }
  if (const Ref<Task> task = slow_lane.next()) {
    run_call(*task);
    return;
  }
  if (!kernel_.run_queue_.empty()) {
    const Ref<Task> task = std::move(kernel_.run_queue_.front());
    kernel_.run_queue_.pop_front();
    task->queued_ = false;
    if (task->dead || !task->blocked_) return;
    task->end_wait();
    task->call_.woken = true;
    run_call(*task);
  }
}

void Dispatcher::run_call(Task& task) {
  const Ref<Task> keep_task(&task);
  if (!slow_lane.admit(task)) return;
  const Ref<GuestThread> thread = task.thread;
  if (!thread) return;
  thread->clear_orders();
  task.in_call_ = true;
  const Result<int64_t> result = call_(task);
  if (strace && !(!result && result.error() == kBlocked)) strace->on_call(task, result);
  task.in_call_ = false;
  if (task.dead) {
    task.call_ = {};
    kernel_.drop_shared_parts(task);
    return;
  }
  if (thread->gone) return;
  complete(task, result);
}

void Dispatcher::complete(Task& task, Result<int64_t> result) {
  if (result || !(result.error() == kBlocked)) task.call_.files = {};
  // A call that was not interrupted takes its temporary mask back before signals are looked at
  // (restore_saved_sigmask_unless() in the kernel).
  const bool interrupted =
      !result && (result.error() == EINTR || result.error().value >= kRestartSys);
  if (task.saved_mask && !interrupted) {
    kernel_.set_blocked(task, *task.saved_mask);
    task.saved_mask.reset();
  }
  if (result) {
    resume(task, *result, 0);
    return;
  }
  const int error = result.error().value;
  switch (error) {
    case kBlocked:
    case kNoReply:
      return;
    case kRestartSys:
    case kRestartNoIntr:
    case kRestartNoHand:
      resume(task, -EINTR, error);
      return;
    case kRestartBlock:
      task.restart_block = {task.syscall_nr, task.syscall_args, task.call_.deadline};
      resume(task, -EINTR, error);
      return;
    default:
      resume(task, -error, 0);
  }
}

void Dispatcher::resume(Task& task, std::optional<int64_t> ret, int restart) {
  if (task.dead || !task.thread || !task.thread->in_sentry) return;
  if (task.group().stopped) {
    task.parked = Task::Parked{ret, restart};
    return;
  }
  if (deliver_signals(task, ret, restart)) return;
  send_resume(task, ret, restart, 0);
}

bool Dispatcher::deliver_signals(Task& task, std::optional<int64_t> ret, int restart) {
  ThreadGroup& group = task.group();
  SignalInfo info;
  while (kernel_.take_signal(task, task.blocked_signals, info)) {
    const GuestSigaction& action = (*group.actions)[info.signo];
    if (action.handler == 1) continue;
    if (action.handler != 0) {
      build_frame(task, info, ret, restart);
      return true;
    }
    switch (default_action(info.signo)) {
      case DefaultAction::kIgnore:
      case DefaultAction::kContinue:
        continue;
      case DefaultAction::kStop:
        // POSIX: the stop signals of terminals do not stop an orphaned process group.
        if (info.signo != SIGSTOP && kernel_.is_orphaned_pgrp(group)) continue;
        stop_group(group, info.signo);
        task.parked = Task::Parked{ret, restart};
        return true;
      case DefaultAction::kTerminate:
        kernel_.exit_group(group, info.signo);
        return true;
      case DefaultAction::kCore:
        kernel_.exit_group(group, info.signo);
        return true;
    }
  }
  // No handler runs: a temporary mask ends here.
  if (task.saved_mask) {
    kernel_.set_blocked(task, *task.saved_mask);
    task.saved_mask.reset();
    return deliver_signals(task, ret, restart);
  }
  return false;
}

void Dispatcher::build_frame(Task& task, const SignalInfo& info, std::optional<int64_t> ret,
                             int restart) {
  ThreadGroup& group = task.group();
  GuestSigaction& action = (*group.actions)[info.signo];
  task.restart_block = {};  // a handler ends what restart_syscall would have continued
  // Whether the interrupted call goes on after the handler (signal(7), "Interruption of system
  // calls").
  if (restart == kRestartNoHand || restart == kRestartBlock ||
      (restart == kRestartSys && !(action.flags & SA_RESTART))) {
    restart = 0;
  }
  uks_signal out{};
  out.handler = action.handler;
  out.restorer = action.restorer;
  out.old_mask = task.saved_mask ? *task.saved_mask : task.blocked_signals;
  task.saved_mask.reset();
  out.alt_base = task.alt_stack.base;
  out.alt_size = task.alt_stack.size;
  out.alt_flags = static_cast<uint32_t>(task.alt_stack.flags);
  out.use_alt = (action.flags & SA_ONSTACK) && !(task.alt_stack.flags & SS_DISABLE) &&
                task.alt_stack.size != 0;
  out.signo = static_cast<uint32_t>(info.signo);
  memcpy(out.info, &info, sizeof out.info);
  memcpy(&task.thread->slot()->signal, &out, sizeof out);

  SignalMask blocked = task.blocked_signals | (action.mask & ~kUnblockable);
  if (!(action.flags & SA_NODEFER)) blocked |= signal_bit(info.signo);
  kernel_.set_blocked(task, blocked);
  if (action.flags & SA_RESETHAND) action = {};
  constexpr int kAutodisarm = static_cast<int>(1U << 31);
  if (task.alt_stack.flags & kAutodisarm) task.alt_stack = {};
  task.delivering_signal = info.signo;
  uint32_t flags = UKS_RESUME_SIGNAL;
  if ((task.pending.pending() | group.pending.pending()) & ~task.blocked_signals)
    flags |= UKS_RESUME_AGAIN;
  send_resume(task, ret, restart, flags);
}

void Dispatcher::send_resume(Task& task, std::optional<int64_t> ret, int restart, uint32_t flags) {
  Reply reply;
  reply.action = UKS_ACTION_RESUME;
  reply.flags = flags;
  if (restart) {
    reply.flags |= UKS_RESUME_RAX | UKS_RESUME_RESTART;
    reply.ret = restart == kRestartBlock ? SYS_restart_syscall : task.syscall_nr;
  } else if (ret) {
    reply.flags |= UKS_RESUME_RAX;
    if (*ret > 0 && task.thread->counts()) reply.flags |= UKS_RESUME_COUNT;
    reply.ret = static_cast<uint64_t>(*ret);
  }
  if (!(flags & UKS_RESUME_SIGNAL)) task.delivering_signal = 0;
  reply.donated = std::move(task.donation);
  if (task.mmap_reply) {
    reply.flags = (reply.flags & ~UKS_RESUME_RAX) | UKS_RESUME_RAX | UKS_RESUME_MMAP;
    task.mmap_reply = false;
  }
  kernel_.platform->reply(*task.thread, std::move(reply));
}

void Dispatcher::order_and_continue(Task& task, std::unique_ptr<StubContinuation> continuation,
                                    UniqueFd donated) {
  task.continuation = std::move(continuation);
  Reply reply;
  reply.action = UKS_ACTION_AGAIN;
  reply.donated = std::move(donated);
  kernel_.platform->reply(*task.thread, std::move(reply));
}

void Dispatcher::on_fault(Task& task, GuestThread& thread) {
  SignalInfo info;
  load_bytes(&info, thread.slot()->info, sizeof info);
  switch (info.signo) {
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
      break;
    default:  // a lie
      info = {};
      info.signo = SIGSEGV;
      info.code = SI_KERNEL;
  }
  LOG_DEBUG("task {}: signal {} code {} at {:#x}, ip {:#x}", task.tid(), info.signo, info.code,
            info.fault.addr, thread.ip);
  force_signal(task, info);
  resume(task, {}, 0);
}

void Dispatcher::force_signal(Task& task, SignalInfo info) {
  GuestSigaction& action = (*task.group().actions)[info.signo];
  const SignalMask bit = signal_bit(info.signo);
  if ((task.blocked_signals & bit) || action.handler == 1) {
    action = {};
    task.blocked_signals &= ~bit;
  }
  task.pending.remove(bit);
  (void)task.pending.push(info, {});
}

void Dispatcher::on_sigreturn(Task& task, GuestThread& thread) {
  if (thread.result < 0) {
    SignalInfo info;
    info.signo = SIGSEGV;
    info.code = SI_KERNEL;
    force_signal(task, info);
  } else {
    kernel_.set_blocked(task, thread.args[0] & ~kUnblockable);
    // restore_altstack(): wrong values are ignored.
    const auto flags = static_cast<int>(thread.args[3]);
    if (flags & SS_DISABLE) {
      task.alt_stack = {};
    } else {
      task.alt_stack = {thread.args[1], thread.args[2], flags & static_cast<int>(1U << 31)};
    }
  }
  thread.clear_data();
  resume(task, {}, 0);
}

void Dispatcher::stop_group(ThreadGroup& group, int signo) {
  if (group.stopped) return;
  group.stopped = true;
  group.stop_signal = signo;
  group.stop_reported = false;
  group.continued_unreported = false;
  for (Task* task : group.threads) {
    if (task->thread && !task->thread->in_sentry) kernel_.platform->kick(*task->thread);
  }
  deaf_stops.watch(group);
  kernel_.notify_parent(group, CLD_STOPPED, signo);
  if (&group == kernel_.init()) kernel_.platform->keeper().send(keeper::Op::kStopped, 0, signo);
}

void Dispatcher::continue_group(ThreadGroup& group) {
  if (!group.stopped) return;
  deaf_stops.thaw(group);
  group.stopped = false;
  group.stop_reported = true;
  group.continued_unreported = true;
  kernel_.notify_parent(group, CLD_CONTINUED, SIGCONT);
  const std::vector<Task*> threads = group.threads;
  for (Task* task : threads) {
    if (!task->parked) continue;
    const Task::Parked parked = *std::exchange(task->parked, std::nullopt);
    resume(*task, parked.ret, parked.restart);
  }
}

}  // namespace uks
