#include "sentry/task/task.h"

#include <time.h>

#include "sentry/task/kernel.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/file.h"
#include "sentry/vfs/fs_context.h"
#include "sentry/vfs/inode.h"

namespace uks {

std::optional<Result<Ref<File>>> CallData::continue_open(Task&) { return std::nullopt; }

class Task::BlockWaiter final : public Waiter {
 public:
  explicit BlockWaiter(Task& task) : task_(task) {}
  void on_wake(uint32_t) override { task_.wake(); }

 private:
  Task& task_;
};

class Task::BlockTimer final : public Timer {
 public:
  BlockTimer(TimerQueue& queue, Task& task) : Timer(queue), task_(task) {}
  void on_expire() override {
    task_.call_.timed_out = true;
    task_.wake();
  }

 private:
  Task& task_;
};

Task::Task(Kernel& kernel, Ref<ThreadGroup> group, pid_t tid)
    : kernel_(kernel),
      group_(std::move(group)),
      tid_(tid),
      creds_(std::make_unique<const Credentials>()) {
  timespec ts{};
  clock_gettime(CLOCK_BOOTTIME, &ts);
  start_time_ns =
      static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(ts.tv_nsec);
}

Task::~Task() { end_wait(); }

pid_t Task::tgid() const { return group_->pid; }

ThreadGroup::ThreadGroup(Kernel& k, pid_t p)
    : kernel(k), pid(p), actions(make_ref<SignalActions>()) {
  for (rlimit64& limit : limits) limit = {RLIM64_INFINITY, RLIM64_INFINITY};
}

ThreadGroup::~ThreadGroup() { set_executable(nullptr); }

void ThreadGroup::set_executable(Ref<File> file) {
  if (file && file->inode()) file->inode()->executions++;
  if (executable && executable->inode()) executable->inode()->executions--;
  executable = std::move(file);
}

// ---- Waiting

bool Task::has_deliverable_signal() const {
  if (dead || group_->exiting) return true;
  return ((pending.pending() | group_->pending.pending()) & ~blocked_signals) != 0;
}

Result<Ref<File>> Task::call_file(int fd) {
  for (CallState::HeldFile& held : call_.files) {
    if (held.file && held.fd == fd) return ref_cast<File>(held.file);
    if (held.file) continue;
    Ref<File> file = TRY(fds().get_io(fd));
    held = {fd, file};
    return file;
  }
  return fds().get_io(fd);
}

Errno Task::block(std::initializer_list<WaitOn> queues, std::optional<MonotonicNs> deadline,
                  int interrupted) {
  return block(std::vector<WaitOn>(queues), deadline, interrupted);
}

Errno Task::block(const std::vector<WaitOn>& queues, std::optional<MonotonicNs> deadline,
                  int interrupted) {
  if (has_deliverable_signal()) return Errno{interrupted};
  end_wait();
  for (const WaitOn& on : queues) {
    if (!on.queue) continue;
    waiters_.emplace_back(*this);
    on.queue->add(waiters_.back(), on.events);
  }
  if (deadline) {
    if (!wait_timer_) wait_timer_ = std::make_unique<BlockTimer>(kernel_.timers, *this);
    wait_timer_->arm(*deadline);
  }
  blocked_ = true;
  return Errno{kBlocked};
}

void Task::wake() {
  if (!blocked_ || queued_) return;
  kernel_.make_runnable(*this);
}

void Task::end_wait() {
  waiters_.clear();
  if (wait_timer_) wait_timer_->disarm();
  blocked_ = false;
}

}  // namespace uks
