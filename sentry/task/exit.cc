// The end of tasks and processes.
#include <sys/epoll.h>
#include <sys/wait.h>

#include <algorithm>

#include "platform/platform.h"
#include "sentry/fs/tty/tty.h"
#include "sentry/ipc/futex.h"
#include "sentry/task/clone.h"
#include "sentry/task/dispatcher.h"
#include "sentry/task/farewell.h"
#include "sentry/task/kernel.h"
#include "sentry/usermem/memory_access.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"

namespace uks {

// Releases a vfork parent: its child has left the shared memory.
void release_vfork_parent(Kernel& kernel, Task& child) {
  const Ref<Task> parent = std::exchange(child.vfork_parent, nullptr);
  if (!parent || !parent->waiting_for_vfork) return;
  parent->waiting_for_vfork = false;
  if (parent->dead) return;
  kernel.dispatcher->resume(*parent, child.tid(), 0);
}

LastWords take_last_words(Task& task) {
  return {task.tid(), std::exchange(task.robust_list, {}), std::exchange(task.clear_child_tid, {})};
}

void leave_memory(Kernel& kernel, ThreadGroup& group, const Ref<AddressSpace>& mm,
                  const std::vector<LastWords>& words) {
  int robust_budget = kRobustBudget;
  for (const LastWords& last : words) {
    if (!mm || mm->gone || (!last.robust_list && !last.clear_child_tid)) continue;
    std::vector<FutexKey> to_wake;
    {
      MemoryAccess memory(group, mm);
      exit_robust_list(memory, *mm, last, robust_budget, to_wake);
      if (last.clear_child_tid) {
        const uint32_t zero = 0;
        (void)memory.write(last.clear_child_tid, &zero, sizeof zero);
        if (const auto key = FutexTable::key(*mm, last.clear_child_tid, false))
          to_wake.push_back(*key);
      }
    }
    for (const FutexKey& key : to_wake) kernel.futexes->wake(key, 1);
  }
}

Farewell::Patience::Patience(Farewell& farewell)
    : Timer(farewell.kernel_.timers), farewell_(farewell) {}

Farewell::Farewell(Kernel& kernel, ThreadGroup& group, Ref<AddressSpace> mm,
                   std::vector<LastWords> words, std::vector<Ref<GuestThread>> threads,
                   int wait_status)
    : kernel_(kernel),
      group_(&group),
      mm_(std::move(mm)),
      words_(std::move(words)),
      threads_(std::move(threads)),
      wait_status_(wait_status),
      patience_(*this) {}

void Farewell::say() {
  patience_.arm(monotonic_now() + kPatience);
  leave_memory(kernel_, *group_, mm_, words_);
  end();
}

void Farewell::end() {
  if (std::exchange(ended_, true)) return;
  patience_.disarm();
  kernel_.end_zombie(*group_, mm_, threads_, wait_status_);
}

// Descriptors, folders and memory of a dead task. Not while one of its handlers runs:
// Dispatcher::run_call() comes back to it.
void Kernel::drop_shared_parts(Task& task) {
  if (const Ref<FdTable> table = std::exchange(task.fd_table, nullptr)) {
    // The table goes with its last user.
    if (table->ref_count() == 1) table->clear(task);
  }
  task.fs_context = nullptr;
  task.mm = nullptr;
}

void Kernel::detach_task(Task& task) {
  if (task.dead) return;
  task.dead = true;
  if (ThreadGroup& group = task.group(); task.is_leader() || group.epitaph.comm.empty()) {
    group.epitaph = {task.comm, task.creds().euid, task.creds().egid, task.start_time_ns,
                     task.creds().ruid};
  }
  if (task.blocked_) task.call_ = {};  // a handler that is running at this moment still uses it
  task.end_wait();
  task.parked.reset();
  task.continuation.reset();
  tasks_.erase(task.tid());
  std::erase(task.group().threads, &task);
  // What this thread was to take, another must (exit_signals() in the kernel).
  if (!task.group().exiting) retarget_signals(task.group(), ~task.blocked_signals);
  if (!task.in_call_) drop_shared_parts(task);
  release_vfork_parent(*this, task);
  task.unref();
}

void Kernel::exit_task(Task& task, int wait_status) {
  const Ref<Task> keep(&task);
  const Ref<ThreadGroup> group(&task.group());
  if (task.dead) return;
  if (group->threads.size() > 1) {
    leave_memory(*this, *group, task.mm, {take_last_words(task)});
    if (task.dead) return;
  }
  if (group->threads.size() == 1) {  // perhaps since then
    become_zombie(*group, wait_status);
    return;
  }
  const Ref<GuestThread> thread = task.thread;
  detach_task(task);
  task.thread = nullptr;
  if (thread && !thread->gone) platform->end_thread(thread.get());
}

void Kernel::exit_group(ThreadGroup& group, int wait_status) {
  if (group.zombie || group.exiting) return;
  group.exiting = true;
  become_zombie(group, wait_status);
}

void Kernel::become_zombie(ThreadGroup& group, int wait_status) {
  const Ref<ThreadGroup> keep(&group);
  group.exiting = true;
  settle_cpu_times(group);
  Ref<AddressSpace> mm;
  std::vector<Ref<GuestThread>> host_threads;
  std::vector<LastWords> words;
  while (!group.threads.empty()) {
    const Ref<Task> task(group.threads.back());
    if (task->thread) host_threads.push_back(task->thread);
    if (task->mm) mm = task->mm;
    // Nobody listens if the memory goes with the process, or the sandbox with it.
    if (mm && !mm->gone && (mm->users > 1 || mm->has_shared_memory) && !finished) {
      const LastWords last = take_last_words(*task);
      if (last.robust_list || last.clear_child_tid) words.push_back(last);
    }
    detach_task(*task);
    if (task->thread) task->thread->task = nullptr;
    task->thread = nullptr;
  }
  group.memory_waits.queue.clear();
  if (words.empty()) {
    end_zombie(group, mm, host_threads, wait_status);
  } else {
    dispatcher->farewells.push_back(make_ref<Farewell>(
        *this, group, std::move(mm), std::move(words), std::move(host_threads), wait_status));
  }
}

void Kernel::end_zombie(ThreadGroup& group, const Ref<AddressSpace>& mm,
                        const std::vector<Ref<GuestThread>>& host_threads, int wait_status) {
  if (mm && !mm->gone) {
    if (mm->users > 0) mm->users--;
    if (mm->users == 0) {
      platform->end_process(*mm);
    } else {
      for (const auto& thread : host_threads) {
        if (!thread->gone) platform->end_thread(thread.get());
      }
    }
  }
  group.pending.clear();
  group.timers = nullptr;
  group.set_executable(nullptr);
  group.zombie = true;
  group.exit_status = wait_status;
  group.stopped = false;
  if (dispatcher) dispatcher->deaf_stops.thaw(group);

  // Children get a new parent: the nearest subreaper, else the sandbox's init, which reaps by
  // itself.
  ThreadGroup* adopter = groups_.at(1).get();
  for (ThreadGroup* g = group.parent; g; g = g->parent) {
    if (g->is_child_subreaper && !g->zombie) {
      adopter = g;
      break;
    }
  }
  std::vector<Ref<ThreadGroup>> children = std::move(group.children);
  group.children.clear();
  for (const auto& child : children) {
    child->parent = adopter;
    adopter->children.push_back(child);
    for (Task* task : child->threads) {
      if (task->parent_death_signal) {
        SignalInfo info;
        info.signo = task->parent_death_signal;
        info.code = SI_USER;
        info.rt.pid = group.pid;
        send_signal(*task, info);
      }
    }
    hang_up_orphaned_pgrp(*child, group);
    if (child->zombie) notify_parent(*child, CLD_EXITED, 0);
  }
  if (group.parent) hang_up_orphaned_pgrp(group, *group.parent);

  if (group.session && group.session->id == group.pid) leave_terminal(group);
  group.exit_events.wake(EPOLLIN);
  if (&group == init_) {
    finish(wait_status);
    return;
  }
  if (WIFEXITED(wait_status)) {
    notify_parent(group, CLD_EXITED, WEXITSTATUS(wait_status));
  } else {
    notify_parent(group, WCOREDUMP(wait_status) ? CLD_DUMPED : CLD_KILLED, WTERMSIG(wait_status));
  }
}

// kill_orphaned_pgrp() in the kernel. `tie`: the parent through which `member` tied its process
// group to the session's others. Nobody would ever continue stopped members of an orphaned group.
void Kernel::hang_up_orphaned_pgrp(const ThreadGroup& member, const ThreadGroup& tie) {
  if (tie.pgid == member.pgid || tie.session != member.session) return;
  const bool stopped = std::any_of(groups_.begin(), groups_.end(), [&](const auto& entry) {
    return entry.second->pgid == member.pgid && entry.second->stopped;
  });
  if (!stopped || !is_orphaned_pgrp(member)) return;
  const pid_t pgid = member.pgid;
  SignalInfo info;
  info.code = SI_KERNEL;
  for (const int signo : {SIGHUP, SIGCONT}) {
    info.signo = signo;
    send_signal_to_pgrp(pgid, info);
  }
}

void Kernel::notify_parent(ThreadGroup& group, int code, int status) {
  ThreadGroup* parent = group.parent;
  if (!parent) return;
  const bool ended = code == CLD_EXITED || code == CLD_KILLED || code == CLD_DUMPED;
  if (parent->pid == 1) {
    if (ended && group.zombie) reap(group);
    return;
  }
  const GuestSigaction& action = (*parent->actions)[SIGCHLD];
  const bool ignores = action.handler == 1 || (action.flags & SA_NOCLDWAIT);
  SignalInfo info;
  info.signo = ended ? group.exit_signal : SIGCHLD;
  info.code = code;
  info.child.pid = group.pid;
  info.child.uid = group.real_uid();
  info.child.status = status;
  constexpr uint64_t kTick = 10'000'000;  // of USER_HZ, in nanoseconds
  const CpuTimes times = cpu_times(group);
  info.child.utime = static_cast<int64_t>(times.user_ns / kTick);
  info.child.stime = static_cast<int64_t>(times.system_ns / kTick);
  if (info.signo != 0 && !(!ended && (action.flags & SA_NOCLDSTOP))) send_signal(*parent, info);
  parent->child_events.wake(EPOLLIN);
  // wait(2), NOTES: children of a process that ignores SIGCHLD do not become zombies.
  if (ended && ignores && group.exit_signal == SIGCHLD) {
    reap(group);
    parent->child_events.wake(EPOLLIN);
  }
}

void Kernel::reap(ThreadGroup& group) {
  const Ref<ThreadGroup> keep(&group);
  if (ThreadGroup* parent = group.parent) {
    parent->children_user_ns += group.settled_cpu.user_ns + group.children_user_ns;
    parent->children_system_ns += group.settled_cpu.system_ns + group.children_system_ns;
    std::erase(parent->children, keep);
  }
  group.parent = nullptr;
  groups_.erase(group.pid);
}

void Kernel::finish(int wait_status) {
  if (finished) return;
  finished = true;
  // Everything of the sandbox goes with its first process.
  std::vector<Ref<ThreadGroup>> others;
  for (const auto& [pid, group] : groups_) {
    if (!group->zombie && !group->threads.empty()) others.push_back(group);
  }
  for (const auto& group : others) exit_group(*group, SIGKILL);
  if (on_finished) on_finished(wait_status);
}

}  // namespace uks
