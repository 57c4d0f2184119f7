// Task: one guest thread as the kernel sees it. ThreadGroup: one guest process.
//
// Everything here is under the kernel lock. A handler runs with its Task; it never blocks: it
// tries, and if it cannot finish it arms a wait with block() and returns that; it is run again,
// from its start, when woken. What must survive between the runs lives in call().
#pragma once
#include <sys/resource.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "platform/platform.h"
#include "sentry/cred/credentials.h"
#include "sentry/signal/signal_state.h"
#include "sentry/task/wait_queue.h"
#include "sentry/time/timer_queue.h"
#include "sentry/usermem/io.h"
#include "sentry/usermem/user_types.h"

namespace uks {

class Kernel;
class Task;
class ThreadGroup;
class Session;
class FdTable;
class FsContext;
class File;

// The rest of an operation that needs the stub more than once (exec, clone, exit).
struct StubContinuation {
  virtual ~StubContinuation() = default;
  // The stub carried its orders out; `result` is what it says of the last one (hostile).
  virtual void resume(Task& task, int64_t result) = 0;
};

// Per-call data of a handler that needs more than a deadline and a count.
struct CallData {
  virtual ~CallData() = default;
  // Of an open(2) that waits: goes on with it, without looking at its path again. No value: not
  // such a call.
  virtual std::optional<Result<Ref<File>>> continue_open(Task& task);
};

// State of the system call in progress, reset when the next one starts.
struct CallState {
  bool woken = false;                   // this run follows a wake-up of block()
  bool timed_out = false;               // ... caused by its deadline
  std::optional<MonotonicNs> deadline;  // set by the first run of a handler with a time-out
  uint64_t progress = 0;                // e.g. bytes written so far
  std::unique_ptr<CallData> data;
  // What call_file() gave, at the numbers asked for; dropped when the call ends.
  struct HeldFile {
    int fd;
    Ref<RefCounted> file;
  };
  std::array<HeldFile, 2> files;
};

// What a task waits for.
struct WaitOn {
  WaitQueue* queue;
  uint32_t events;  // EPOLL* bits
};

class Task : public RefCounted {
 public:
  Task(Kernel& kernel, Ref<ThreadGroup> group, pid_t tid);
  ~Task() override;

  Kernel& kernel() { return kernel_; }
  ThreadGroup& group() { return *group_; }
  pid_t tid() const { return tid_; }
  pid_t tgid() const;
  bool is_leader() const { return tid_ == tgid(); }
  FdTable& fds() { return *fd_table; }
  // The file to do I/O on in a call that may block: the same one in each of its runs, whatever
  // becomes of the number meanwhile (Linux looks once, fdget()). At most two numbers a call. EBADF.
  Result<Ref<File>> call_file(int fd);
  FsContext& fs() { return *fs_context; }
  const Credentials& creds() const { return *creds_; }
  // A copy to change, then set_creds(): credentials are shared, immutable values.
  Credentials copy_creds() const { return *creds_; }
  void set_creds(Credentials creds) {
    creds_ = std::make_unique<const Credentials>(std::move(creds));
  }

  // ---- Guest memory. EFAULT when the guest's address space has no such bytes. What is not in the
  // task's slot is read and written WITH THE KERNEL LOCK DROPPED: look again at shared state after
  // each of these. EINTR: the task was killed meanwhile.
  [[nodiscard]] Result<void> copy_in(UserAddr from, void* to, size_t n);
  [[nodiscard]] Result<void> copy_out(UserAddr to, const void* from, size_t n);
  // At most `max` bytes with the NUL; longer: ENAMETOOLONG.
  [[nodiscard]] Result<std::string> copy_in_string(UserAddr from, size_t max);
  // A path: as copy_in_string with PATH_MAX.
  [[nodiscard]] Result<std::string> copy_in_path(UserPath from) {
    return copy_in_string(from, 4096);
  }
  template <typename T>
  [[nodiscard]] Result<T> copy_in(UserAddr from) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    if (auto r = copy_in(from, &value, sizeof value); !r) return Err(r.error());
    return value;
  }
  template <typename T>
  [[nodiscard]] Result<void> copy_out(UserAddr to, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return copy_out(to, &value, sizeof value);
  }
  // readv-style vectors: EINVAL for count > 1024 or a negative total, EFAULT. Caps the total.
  [[nodiscard]] Result<UserIovec> copy_in_iovec(UserAddr iov, int count);
  // As copy_out, but the guest has it at once, not with the answer.
  [[nodiscard]] Result<void> write_now(UserAddr to, const void* from, size_t n);

  // ---- Waiting.
  // Arms a wait on all `queues` (null queues are skipped) and, if set, the deadline. Returns
  // kBlocked; the handler must return it at once. If a signal is deliverable (or the task is being
  // killed) it arms nothing and returns `interrupted` (EINTR or a kRestart* code) instead. The
  // handler is run again with call().woken set; after a time-out with call().timed_out too. A
  // handler that already made progress checks: `auto e = task.block(...); return e == kBlocked ? e
  // : done`.
  [[nodiscard]] Errno block(std::initializer_list<WaitOn> queues,
                            std::optional<MonotonicNs> deadline = {},
                            int interrupted = kRestartSys);
  [[nodiscard]] Errno block(const std::vector<WaitOn>& queues,
                            std::optional<MonotonicNs> deadline = {},
                            int interrupted = kRestartSys);
  CallState& call() { return call_; }
  // Makes a blocked task runnable. No effect on others.
  void wake();
  bool is_blocked() const { return blocked_; }
  bool has_deliverable_signal() const;

  // ---- Per-thread state.
  Ref<FdTable> fd_table;
  Ref<FsContext> fs_context;
  SignalMask blocked_signals = 0;
  // What rt_sigtimedwait waits for: unblocked meanwhile, but never dropped as ignored (real_blocked
  // in the kernel).
  SignalMask awaited_signals = 0;
  // rt_sigsuspend, ppoll, pselect, epoll_pwait: the mask to put back once a handler frame is built.
  std::optional<SignalMask> saved_mask;
  SignalQueue pending;
  AltStack alt_stack;
  std::string comm;  // at most 15 bytes
  UserAddr clear_child_tid;
  UserAddr robust_list;
  int parent_death_signal = 0;
  bool exceeded_process_limit =
      false;  // at the last change of user (check_process_limit_at_exec())
  int nice = 0;
  int sched_policy = 0;            // SCHED_OTHER, SCHED_BATCH, SCHED_IDLE; shown, not obeyed
  int io_priority = 0;             // as ioprio_set(2) encodes it
  std::vector<uint64_t> affinity;  // words of the CPU mask; empty: all
  int timer_slack_ns = 50'000;
  bool dead = false;           // exited; kept only by references
  uint64_t start_time_ns = 0;  // CLOCK_BOOTTIME when created
  Ref<AddressSpace> mm;
  Ref<GuestThread> thread;  // null once the host thread is gone

 private:
  friend class Kernel;
  friend class Dispatcher;
  class BlockWaiter;
  class BlockTimer;
  void end_wait();

  Kernel& kernel_;
  Ref<ThreadGroup> group_;
  pid_t tid_;
  std::unique_ptr<const Credentials> creds_;
  CallState call_;
  bool blocked_ = false;
  bool queued_ = false;  // on the kernel's run queue
  // A handler is running. It may have dropped the kernel lock and been killed meanwhile: what it
  // works on (fd_table, fs_context, mm) then stays until it returns.
  bool in_call_ = false;
  std::list<BlockWaiter> waiters_;
  std::unique_ptr<BlockTimer> wait_timer_;

 public:
  // A signal frame is being built: its failure is the guest's SIGSEGV.
  int delivering_signal = 0;
  // For the next reply: a descriptor for the stub, and that its last order's result is the call's.
  UniqueFd donation;
  bool mmap_reply = false;
  // Parked by a job-control stop: how to resume.
  struct Parked {
    std::optional<int64_t> ret;
    int restart;
  };
  std::optional<Parked> parked;
  // restart_syscall(2): what it continues.
  struct RestartBlock {
    uint64_t nr = ~uint64_t{0};
    std::array<uint64_t, 6> args{};
    std::optional<MonotonicNs> deadline;
  };
  RestartBlock restart_block;
  // What to do when the stub reports UKS_EVENT_DONE, UKS_EVENT_CLONED.
  std::unique_ptr<StubContinuation> continuation;
  // vfork: released when this child's group execs or exits.
  Ref<Task> vfork_parent;
  bool waiting_for_vfork = false;

  // The call being served; what a re-run needs.
  uint64_t syscall_nr = 0;
  std::array<uint64_t, 6> syscall_args{};
};

// Accesses to a process's memory that wait, or have lately (sentry/task/slow_lane.h).
struct MemoryWaits {
  unsigned count = 0;            // in progress
  MonotonicNs since = 0;         // when the oldest of them began
  MonotonicNs slow_until = 0;    // lately
  std::vector<Ref<Task>> queue;  // calls that wait for the end of one
};

struct CpuTimes {
  uint64_t user_ns = 0, system_ns = 0;
  uint64_t total_ns() const { return user_ns + system_ns; }
};

class Session : public RefCounted {
 public:
  explicit Session(pid_t sid) : id(sid) {}
  pid_t id;
  Ref<RefCounted> terminal;  // the controlling terminal (sentry/fs/dev/tty), if any
  pid_t foreground_pgid = 0;
};

class ThreadGroup : public RefCounted {
 public:
  ThreadGroup(Kernel& kernel, pid_t pid);
  ~ThreadGroup() override;

  Kernel& kernel;
  pid_t pid;
  ThreadGroup* parent = nullptr;           // null for init and orphans of a dead init
  std::vector<Ref<ThreadGroup>> children;  // alive or zombie
  pid_t parent_thread = 0;                 // the thread that made it: __WNOTHREAD
  std::vector<Task*> threads;              // live tasks; the leader may be gone
  pid_t pgid = 0;
  Ref<Session> session;

  Ref<SignalActions> actions;
  SignalQueue pending;      // process-directed
  WaitQueue child_events;   // wait4: a child changed state
  WaitQueue exit_events;    // pidfd: this group became a zombie
  WaitQueue signal_events;  // signalfd: send_signal wakes EPOLLIN whenever it queued one
  Ref<RefCounted> timers;   // itimers and POSIX timers (sentry/time/group_timers.h)
  int exit_signal = 17;     // SIGCHLD
  bool exiting = false;     // exit_group or a fatal signal has begun
  int exit_status = 0;      // as wait4 reports it, valid once zombie
  bool zombie = false;
  bool stopped = false;  // job control stop
  int stop_signal = 0;
  bool stop_reported = true;
  bool continued_unreported = false;
  bool is_child_subreaper = false;
  uint32_t personality = 0;
  bool dumpable = true;
  bool did_exec = false;
  int oom_score_adj = 0;      // /proc/PID/oom_score_adj: stored and inherited, not obeyed
  int oom_score_adj_min = 0;  // lower needs CAP_SYS_RESOURCE
  // What /proc shows of a zombie, whose threads are gone: its leader's name, owner and start.
  struct Epitaph {
    std::string comm;
    uid_t uid = 0;
    gid_t gid = 0;
    uint64_t start_time_ns = 0;  // CLOCK_BOOTTIME
    uid_t real_uid = 0;
  };
  Epitaph epitaph;
  // The real user id, of a zombie too: what SIGCHLD and waitid(2) say of a child.
  uid_t real_uid() const {
    return threads.empty() ? epitaph.real_uid : threads.front()->creds().ruid;
  }
  std::array<rlimit64, RLIM_NLIMITS> limits{};
  // The lower of RLIMIT_AS and RLIMIT_DATA: below RLIM64_INFINITY every mmap is looked at, and it
  // bounds brk.
  uint64_t memory_limit() const {
    return std::min(limits[RLIMIT_AS].rlim_cur, limits[RLIMIT_DATA].rlim_cur);
  }

  Ref<File> executable;  // /proc/PID/exe; set with set_executable
  // Null at the end. Keeps count at the inode of who runs it.
  void set_executable(Ref<File> file);
  std::string executable_path;
  std::string command_line;  // NUL-separated, as /proc/PID/cmdline shows it
  std::string environment;   // NUL-separated, as given to execve
  std::vector<std::pair<uint64_t, uint64_t>> auxv;

  MemoryWaits memory_waits;

  // CPU time in address spaces that this process had before: see settle_cpu_times().
  CpuTimes settled_cpu;
  // What was told last, for the sum may be split otherwise later.
  CpuTimes shown_cpu;
  // CPU time of waited-for children, in nanoseconds.
  uint64_t children_user_ns = 0, children_system_ns = 0;
};

}  // namespace uks
