#include "sentry/task/wait.h"

#include <sys/epoll.h>
#include <sys/wait.h>

#include <algorithm>

#include "sentry/task/kernel.h"

#ifndef __WCLONE
#define __WNOTHREAD 0x20000000
#define __WCLONE 0x80000000
#endif

namespace uks {
namespace {

// The children of a thread that is gone are those of the first that is left (find_new_reaper() in
// kernel/exit.c).
bool is_own_child(Task& task, const ThreadGroup& child) {
  const std::vector<Task*>& threads = task.group().threads;
  if (child.parent_thread == task.tid()) return true;
  if (threads.front() != &task) return false;
  return std::ranges::none_of(threads,
                              [&](const Task* t) { return t->tid() == child.parent_thread; });
}

bool matches(const ThreadGroup& child, const WaitRequest& request) {
  if (request.kind == WaitRequest::Kind::kPid && child.pid != request.id) return false;
  if (request.kind == WaitRequest::Kind::kGroup && child.pgid != request.id) return false;
  // "clone children" are those that report another signal than SIGCHLD.
  if (request.options & __WALL) return true;
  return (child.exit_signal != SIGCHLD) ==
         ((static_cast<unsigned>(request.options) & __WCLONE) != 0);
}

int code_of(int status) {
  if (WIFEXITED(status)) return CLD_EXITED;
  return WCOREDUMP(status) ? CLD_DUMPED : CLD_KILLED;
}

}  // namespace

Result<std::optional<WaitResult>> wait_for_child(Task& task, const WaitRequest& request) {
  ThreadGroup& group = task.group();
  bool have_children = false;
  for (const Ref<ThreadGroup>& child : group.children) {
    if (!matches(*child, request)) continue;
    if ((request.options & __WNOTHREAD) && !is_own_child(task, *child)) continue;
    have_children = true;
    WaitResult result;
    result.pid = child->pid;
    result.uid = child->real_uid();
    if (child->zombie && (request.options & WEXITED)) {
      const Ref<ThreadGroup> keep = child;
      result.status = child->exit_status;
      result.code = code_of(child->exit_status);
      result.user_ns = child->settled_cpu.user_ns + child->children_user_ns;
      result.system_ns = child->settled_cpu.system_ns + child->children_system_ns;
      if (!(request.options & WNOWAIT)) task.kernel().reap(*keep);
      return result;
    }
    if (child->zombie) continue;
    if (child->stopped && !child->stop_reported && (request.options & WSTOPPED)) {
      if (!(request.options & WNOWAIT)) child->stop_reported = true;
      result.status = (child->stop_signal << 8) | 0x7f;
      result.code = CLD_STOPPED;
      return result;
    }
    if (child->continued_unreported && (request.options & WCONTINUED)) {
      if (!(request.options & WNOWAIT)) child->continued_unreported = false;
      result.status = 0xffff;
      result.code = CLD_CONTINUED;
      return result;
    }
  }
  if (!have_children) return Err(ECHILD);
  if (request.options & WNOHANG) return std::optional<WaitResult>{};
  return Err(task.block({{&group.child_events, EPOLLIN}}));
}

}  // namespace uks
