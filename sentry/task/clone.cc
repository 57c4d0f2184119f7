#include "sentry/task/clone.h"

#include <linux/sched.h>

#include "platform/platform.h"
#include "sentry/fs/pidfd/pidfd.h"
#include "sentry/task/dispatcher.h"
#include "sentry/task/kernel.h"
#include "sentry/time/group_timers.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"

namespace uks {
namespace {

constexpr uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// What the host's clone needs to know, from the guest's flags.
Result<void> check_flags(const CloneRequest& request) {
  const uint64_t f = request.flags;
  // Invalid combinations, as copy_process() in the kernel has them.
  if ((f & CLONE_SIGHAND) && !(f & CLONE_VM)) return Err(EINVAL);
  if ((f & CLONE_THREAD) && !(f & CLONE_SIGHAND)) return Err(EINVAL);
  if ((f & CLONE_NEWNS) && (f & CLONE_FS)) return Err(EINVAL);
  // No namespaces inside yet: what an unprivileged process is told where they are switched off.
  if (f & kNamespaces) return Err(EPERM);
  if (f & CLONE_INTO_CGROUP) return Err(EINVAL);
  if ((f & CLONE_PIDFD) && (f & CLONE_THREAD)) return Err(EINVAL);
  return {};
}

// The parent's side of the order: the stub reports what the host's clone returned.
struct ParentContinuation final : StubContinuation {
  ParentContinuation(Ref<Task> child, CloneRequest request)
      : child_(std::move(child)), request_(request) {}

  void resume(Task& task, int64_t result) override {
    Kernel& kernel = task.kernel();
    const pid_t tid = child_->tid();
    if (result < 0) {
      // The host refused. The child never ran.
      const Ref<GuestThread> thread = child_->thread;
      child_->thread = nullptr;
      if (thread && !thread->gone) {
        thread->task = nullptr;
        kernel.platform->abandon_child(thread.get());
      }
      // Nobody is waited for: the child's end would tell a vfork parent that there was one.
      child_->vfork_parent = nullptr;
      task.waiting_for_vfork = false;
      kernel.undo_clone(*child_);
      kernel.dispatcher->complete(task, Err(EAGAIN));
      return;
    }
    const bool same_memory = request_.flags & CLONE_VM;
    if ((request_.flags & CLONE_PARENT_SETTID) && !same_memory) {
      (void)task.copy_out(request_.parent_tid, static_cast<int32_t>(tid));
    }
    if (request_.flags & CLONE_PIDFD) {
      if (const auto fd = install_pidfd(task, child_->group(), 0))
        (void)task.copy_out(request_.pidfd, *fd);
    }
    if (task.waiting_for_vfork) return;  // released by the child's exec or exit
    kernel.dispatcher->complete(task, tid);
  }

 private:
  Ref<Task> child_;
  CloneRequest request_;
};

// The child's first words.
struct ChildContinuation final : StubContinuation {
  explicit ChildContinuation(const CloneRequest& request) : request_(request) {}
  void resume(Task& task, int64_t) override {
    const auto tid = static_cast<int32_t>(task.tid());
    if (request_.flags & CLONE_CHILD_SETTID) (void)task.copy_out(request_.child_tid, tid);
    task.kernel().dispatcher->resume(task, 0, 0);
  }

 private:
  CloneRequest request_;
};

// RLIMIT_NPROC, as copy_process() in the kernel looks at it: of the real user, zombies included.
bool may_have_more_tasks(Task& parent) {
  constexpr int kCapSysAdmin = 21, kCapSysResource = 24;
  Kernel& kernel = parent.kernel();
  const uint64_t limit = parent.group().limits[RLIMIT_NPROC].rlim_cur;
  const uid_t user = parent.creds().ruid;
  if (limit >= kernel.max_tasks || user == 0) return true;
  if (parent.creds().has_cap(kCapSysAdmin) || parent.creds().has_cap(kCapSysResource)) return true;
  return count_tasks(kernel, user) < limit;
}

bool exceeds_process_limit(Task& task) {
  const uid_t user = task.creds().ruid;
  const uint64_t limit = task.group().limits[RLIMIT_NPROC].rlim_cur;
  return user != 0 && limit < task.kernel().max_tasks && count_tasks(task.kernel(), user) > limit;
}

Ref<ThreadGroup> new_process(Task& parent, const CloneRequest& request, pid_t pid) {
  ThreadGroup& from = parent.group();
  // CLONE_PARENT: the caller's parent becomes the child's.
  ThreadGroup* real_parent = request.flags & CLONE_PARENT && from.parent ? from.parent : &from;
  Ref<ThreadGroup> group = parent.kernel().new_group(real_parent, pid);
  group->parent_thread = real_parent == &from ? parent.tid() : from.parent_thread;
  group->pgid = from.pgid;
  group->session = from.session;
  if (request.flags & CLONE_SIGHAND) {
    group->actions = from.actions;
  } else {
    group->actions = make_ref<SignalActions>();
    for (int sig = 1; sig <= kSignalCount; sig++) (*group->actions)[sig] = (*from.actions)[sig];
  }
  group->exit_signal = request.exit_signal;
  group->dumpable = from.dumpable;
  group->personality = from.personality;
  group->oom_score_adj = from.oom_score_adj;
  group->oom_score_adj_min = from.oom_score_adj_min;
  group->limits = from.limits;
  if (group->limits[RLIMIT_CPU].rlim_cur != RLIM64_INFINITY)
    GroupTimers::of(*group).watch_cpu_limit();
  group->set_executable(from.executable);
  group->executable_path = from.executable_path;
  group->command_line = from.command_line;
  group->environment = from.environment;
  group->auxv = from.auxv;
  return group;
}

}  // namespace

void Kernel::undo_clone(Task& child) {
  const Ref<ThreadGroup> group(&child.group());
  const Ref<AddressSpace> mm = child.mm;
  detach_task(child);
  if (group->threads.empty()) {
    if (mm && mm->users > 0) mm->users--;
    group->zombie = true;
    reap(*group);
  }
}

uint64_t count_tasks(const Kernel& kernel, uid_t user) {
  uint64_t count = 0;
  for (const auto& [pid, group] : kernel.groups()) {
    if (group->zombie) count += group->real_uid() == user;
    for (const Task* task : group->threads) count += task->creds().ruid == user;
  }
  return count;
}

void note_process_limit(Task& task) { task.exceeded_process_limit = exceeds_process_limit(task); }

Result<void> check_process_limit_at_exec(Task& task) {
  task.exceeded_process_limit = task.exceeded_process_limit && exceeds_process_limit(task);
  if (task.exceeded_process_limit) return Err(EAGAIN);
  return {};
}

Result<int64_t> clone_task(Task& parent, const CloneRequest& request) {
  TRY(check_flags(request));
  Kernel& kernel = parent.kernel();
  const bool same_memory = request.flags & CLONE_VM;
  const bool same_group = request.flags & CLONE_THREAD;

  ClonePlan plan;
  plan.same_memory = same_memory;
  plan.set_tls = request.flags & CLONE_SETTLS;
  plan.tls = request.tls;
  plan.stack = request.stack;
  if (!(request.flags & CLONE_FILES) &&
      !FdTable::check_total(static_cast<size_t>(parent.fd_table->count())))
    return Err(ENOMEM);
  const auto may_clone = [&] {
    return kernel.task_count() < kernel.max_tasks && may_have_more_tasks(parent);
  };
  if (!may_clone()) return Err(EAGAIN);
  const pid_t tid = kernel.allocate_pid();
  // Before the child can run, and before clone returns in the parent: pthread_join() takes a 0 here
  // for a thread that has ended, and a late write would undo the child's CLEARTID.
  if (same_memory && (request.flags & CLONE_PARENT_SETTID)) {
    (void)parent.write_now(request.parent_tid, &tid, sizeof tid);
    if (parent.dead) return Err(EINTR);
    if (!may_clone()) return Err(EAGAIN);  // others cloned meanwhile
  }
  // Nothing is made before the platform has agreed: from here on only the host's clone can fail.
  GuestThread* thread = TRY(kernel.platform->clone(*parent.thread, plan));

  const Ref<ThreadGroup> group =
      same_group ? Ref<ThreadGroup>(&parent.group()) : new_process(parent, request, tid);
  auto child = make_ref<Task>(kernel, group, tid);
  child->set_creds(parent.copy_creds());
  child->fd_table = request.flags & CLONE_FILES ? parent.fd_table : parent.fd_table->clone();
  child->fs_context = request.flags & CLONE_FS ? parent.fs_context : parent.fs_context->clone();
  child->blocked_signals = parent.saved_mask.value_or(parent.blocked_signals);
  // A new thread starts without alternate stack; vfork children keep it (copy_thread()).
  if (!same_memory || (request.flags & CLONE_VFORK)) child->alt_stack = parent.alt_stack;
  child->comm = parent.comm;
  child->nice = parent.nice;
  child->sched_policy = parent.sched_policy;
  child->io_priority = parent.io_priority;
  child->affinity = parent.affinity;
  child->timer_slack_ns = parent.timer_slack_ns;
  if (request.flags & CLONE_CHILD_CLEARTID) child->clear_child_tid = request.child_tid;
  child->mm = Ref<AddressSpace>(&thread->mm());
  if (!same_group) child->mm->users++;
  child->thread = Ref<GuestThread>(thread);
  thread->task = child.get();
  child->continuation = std::make_unique<ChildContinuation>(request);
  kernel.add_task(*child);
  if (request.flags & CLONE_VFORK) {
    child->vfork_parent = Ref<Task>(&parent);
    parent.waiting_for_vfork = true;
  }
  parent.continuation = std::make_unique<ParentContinuation>(child, request);
  kernel.platform->order_clone(*parent.thread);
  return Err(kNoReply);
}

}  // namespace uks
