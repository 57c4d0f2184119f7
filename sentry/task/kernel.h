// Kernel: everything of one sandbox. Passed by reference, never global.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "sentry/net/unix/garbage.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/task/page_quota.h"
#include "sentry/task/task.h"
#include "sentry/time/timer_queue.h"

namespace uks {

class MountNamespace;
class Platform;
class FutexTable;
class Dispatcher;
class EventLoop;
class OrphanTimer;

// How a task's life ends or changes, seen by syscalls/.
class Kernel {
 public:
  Kernel();
  ~Kernel();

  // ---- Tasks
  Task* find_task(pid_t tid);
  ThreadGroup* find_group(pid_t pid);
  // All live and zombie groups, by pid.
  const std::map<pid_t, Ref<ThreadGroup>>& groups() const { return groups_; }
  pid_t allocate_pid();
  // Registers what new_task() made; thread->task and mm are set by the caller.
  void add_task(Task& task);
  Ref<ThreadGroup> new_group(ThreadGroup* parent, pid_t pid = 0);
  size_t task_count() const { return tasks_.size(); }
  ThreadGroup* init() { return init_; }

  // ---- Signals (sentry/signal/send.cc). No permission checks here.
  // To one thread. `info.signo` says which.
  // False: a real-time signal found the queue full (EAGAIN).
  bool send_signal(Task& task, const SignalInfo& info);
  // To a process: any thread that does not block it.
  bool send_signal(ThreadGroup& group, const SignalInfo& info);
  // The same for the signal of a timer, which has its place in the queue. False: it is ignored,
  // nothing is pending.
  bool send_timer_signal(Task& task, const SignalInfo& info);
  bool send_timer_signal(ThreadGroup& group, const SignalInfo& info);
  // Takes the next signal that `blocked` does not hold back off the thread's queue, else off the
  // process's. A periodic timer whose signal it is goes on.
  bool take_signal(Task& task, SignalMask blocked, SignalInfo& info);
  // To every process of a process group. Returns how many there were.
  int send_signal_to_pgrp(pid_t pgid, const SignalInfo& info);

  // Changes what a thread blocks. Signals of the process that it was to take find another thread.
  void set_blocked(Task& task, SignalMask blocked);
  // Makes threads that do not block them look for those pending ones of the process.
  void retarget_signals(ThreadGroup& group, SignalMask signals);

  // ---- Life and death (sentry/task/exit.cc)
  // Ends the whole group with a wait status (code << 8, or a signal number).
  void exit_group(ThreadGroup& group, int wait_status);
  // Ends the sandbox: its first process ended with this status.
  void finish(int wait_status);
  // Takes back a child whose host process could not be made.
  void undo_clone(Task& child);
  // execve of a multithreaded process: the others end, the caller takes the leader's id.
  void end_sibling(Task& task);
  void make_leader(Task& task);
  // Forgets a zombie that was waited for, or that nobody will wait for.
  void reap(ThreadGroup& group);
  // SIGCHLD and wake-up of the parent: `code` is CLD_*, `status` an exit code or signal.
  void notify_parent(ThreadGroup& group, int code, int status);
  // Whether no member of the group's process group has a parent in another group of its session.
  bool is_orphaned_pgrp(const ThreadGroup& group) const;
  // Ends one thread; the last one ends the group with `wait_status`.
  void exit_task(Task& task, int wait_status);

  // ---- CPU time (sentry/time/cpu_times.cc): the host's clocks of the stub process.
  // Of a whole process, threads that ended included.
  CpuTimes cpu_times(ThreadGroup& group);
  // Of one thread; none when the host does not tell (one of several threads).
  std::optional<uint64_t> task_cpu_ns(Task& task);
  // Call it before a process leaves its address space (exec, exit), so that its times are kept.
  void settle_cpu_times(ThreadGroup& group);

  // ---- Scheduling
  void make_runnable(Task& task);
  // Runs the tasks that became runnable. The event thread calls it after its callbacks.
  void run_pending();
  // For every thread that took kernel_lock and may have changed something: runs what became
  // runnable, drops the lock, sends the stubs their replies.
  void unlock_and_flush() UKS_TSA(release_capability(kernel_lock))
      UKS_TSA(no_thread_safety_analysis);

  TimerQueue timers;
  GarbageTimer socket_garbage{timers};
  // What guests make the sandbox hold: files in memory, shared memory, pipes, sockets.
  Ref<PageQuota> pages = make_ref<PageQuota>(default_page_limit());
  // Files and shared memory: full file systems leave room for what programs talk through.
  Ref<PageQuota> file_pages =
      make_ref<PageQuota>(pages->limit() - message_reserve(pages->limit()), pages);
  Ref<MountNamespace> mounts;  // the initial mount namespace
  Platform* platform = nullptr;
  Dispatcher* dispatcher = nullptr;
  EventLoop* events = nullptr;
  // Who waits for a fresh stub process (exec).
  WaitQueue stub_waiters;
  bool finished = false;
  std::function<void(int wait_status)> on_finished;
  unsigned max_tasks = 4096;      // threads of all processes; more: EAGAIN
  FutexTable* futexes = nullptr;  // sentry/ipc/futex.h
  std::string hostname = "uks";
  std::string domainname = "(none)";
  int64_t boot_time_ns = 0;  // CLOCK_REALTIME at start
  unsigned cpu_count = 1;
  uint64_t total_forks = 0;
  std::string machine_boot_id;

 private:
  friend class Dispatcher;
  friend class Task;
  friend class Boot;
  void end_group_members(ThreadGroup& group);
  void become_zombie(ThreadGroup& group, int wait_status);
  // Its second half, when the process's memory has been told.
  friend class Farewell;
  void end_zombie(ThreadGroup& group, const Ref<AddressSpace>& mm,
                  const std::vector<Ref<GuestThread>>& host_threads, int wait_status);
  void detach_task(Task& task);
  void drop_shared_parts(Task& task);
  bool send_to_task(Task& task, const SignalInfo& info, bool of_timer);
  bool send_to_group(ThreadGroup& group, const SignalInfo& info, bool of_timer);
  void hang_up_orphaned_pgrp(const ThreadGroup& member, const ThreadGroup& tie);
  void run_task(Task& task);
  std::map<pid_t, Ref<ThreadGroup>> groups_;
  std::unordered_map<pid_t, Task*> tasks_;
  ThreadGroup* init_ = nullptr;
  pid_t last_pid_ = 0;
  std::deque<Ref<Task>> run_queue_;
};

}  // namespace uks
