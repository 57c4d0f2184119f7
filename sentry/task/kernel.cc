#include "sentry/task/kernel.h"

#include <sys/epoll.h>
#include <sys/sysinfo.h>
#include <time.h>

#include <algorithm>

#include "platform/platform.h"
#include "sentry/task/dispatcher.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/task/shared_memory.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"
#include "sentry/vfs/mount.h"

namespace uks {

Mutex kernel_lock;
namespace {
void plain_unlock() UKS_TSA(no_thread_safety_analysis) { kernel_lock.unlock(); }
void plain_lock() UKS_TSA(no_thread_safety_analysis) { kernel_lock.lock(); }
}  // namespace
void (*drop_kernel_lock)() = plain_unlock;
void (*retake_kernel_lock)() = plain_lock;

namespace {
constexpr pid_t kPidMax = 4194304;
constexpr pid_t kFirstPid = 2;  // 1 is the sandbox's own init: it adopts orphans and has no threads
}  // namespace

uint64_t default_page_limit() {
  struct sysinfo info;
  if (sysinfo(&info) != 0) return (uint64_t{1} << 30) / PageQuota::kPage;
  return static_cast<uint64_t>(info.totalram) * info.mem_unit / 4 / PageQuota::kPage;
}

Kernel::Kernel() : boot_time_ns(realtime_now() - monotonic_now()) {
  auto init = make_ref<ThreadGroup>(*this, 1);
  init->pgid = 1;
  init->session = make_ref<Session>(1);
  groups_[1] = init;
  pages->reclaim = file_pages->reclaim = [this] { let_all_go_unmapped(*this); };
}

Kernel::~Kernel() = default;

Task* Kernel::find_task(pid_t tid) {
  const auto it = tasks_.find(tid);
  return it == tasks_.end() ? nullptr : it->second;
}

ThreadGroup* Kernel::find_group(pid_t pid) {
  const auto it = groups_.find(pid);
  return it == groups_.end() ? nullptr : it->second.get();
}

pid_t Kernel::allocate_pid() {
  do {
    last_pid_ = last_pid_ >= kPidMax - 1 || last_pid_ < kFirstPid
                    ? std::max(kFirstPid, 300 * (last_pid_ >= kPidMax - 1))
                    : last_pid_ + 1;
  } while (tasks_.contains(last_pid_) || groups_.contains(last_pid_));
  return last_pid_;
}

void Kernel::add_task(Task& task) {
  tasks_[task.tid()] = &task;
  task.ref();  // dropped by detach_task
  task.group().threads.push_back(&task);
  total_forks++;
}

Ref<ThreadGroup> Kernel::new_group(ThreadGroup* parent, pid_t pid) {
  auto group = make_ref<ThreadGroup>(*this, pid ? pid : allocate_pid());
  groups_[group->pid] = group;
  if (!init_) {
    init_ = group.get();
    parent = groups_[1].get();
  }
  group->parent = parent;
  parent->children.push_back(group);
  return group;
}

void Kernel::make_runnable(Task& task) {
  if (task.queued_) return;
  task.queued_ = true;
  run_queue_.emplace_back(&task);
}

void Kernel::run_pending() {
  if (dispatcher) dispatcher->run_pending();
}

void Kernel::unlock_and_flush() {
  if (platform) {
    platform->unlock_and_flush();
  } else {
    run_pending();
    kernel_lock.unlock();
  }
}

bool Kernel::is_orphaned_pgrp(const ThreadGroup& group) const {
  for (const auto& [pid, member] : groups_) {
    if (member->pgid != group.pgid || member->zombie) continue;
    const ThreadGroup* parent = member->parent;
    // The sandbox's own init stands for the shell outside that started us.
    if (parent && parent->pid != 1 && parent->pgid != group.pgid &&
        parent->session == member->session)
      return false;
    if (member.get() == init_) return false;
  }
  return true;
}

}  // namespace uks
