// What stubs report: calls, clones, first words. Everything in it is a hostile process's claim.
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "platform/base/check.h"
#include "platform/base/log.h"
#include "platform/channel/shared_cell.h"
#include "platform/trap/trap_platform.h"

namespace uks {
namespace {

// Process clones that one guest process may report as failed before that is looked into.
constexpr unsigned kMaxFailedClones = 32;
// Host threads of a stub process beyond those we know: on their way out.
constexpr uint64_t kLeavingThreads = 16;

// Whether `pid` can be waited for: our child or tracee, alive or not yet reaped (ECHILD otherwise).
// The reaper takes the dead away under the lock only.
bool is_ours(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

}  // namespace

// Whether `pid` is a process, not a thread, and ours.
bool TrapPlatform::is_child(pid_t pid) const {
  if (!is_ours(pid)) return false;
  // Tracees are threads as well. A thread is no member of a group that has its own number (ESRCH);
  // a process takes a kick that it need not heed.
  return !traced_ || syscall(SYS_tgkill, pid, pid, SIGURG) == 0;
}

void TrapPlatform::deny(const Notification& n) {
  // A thread that asks for what nobody ordered is hostile. It is not resumed; its process ends.
  const auto it = by_tid_.find(static_cast<pid_t>(n.tid));
  if (it == by_tid_.end()) {
    // A hand-off is mostly of one whose process has died since it was received.
    if (n.nr == SYS_getppid && n.args[1] == UKS_HANDOFF) {
      LOG_DEBUG("host thread {} has ended since its hand-off", n.tid);
    } else {
      LOG_WARN_LIMITED("an unknown host thread {} asked for an unordered call", n.tid);
    }
    keeper_.send(keeper::Op::kKill, static_cast<int32_t>(n.tid));
    return;
  }
  LOG_WARN_LIMITED("host thread {} asked for an unordered call; its process is ended", n.tid);
  end_process(it->second->mm());
}

void TrapPlatform::end_liar(GuestThread& thread, const char* lie) {
  LOG_WARN_LIMITED("host thread {}: {}; its process is ended", thread.host_tid, lie);
  thread.in_sentry =
      false;  // no answer, which it would not obey: it waits for the keeper's SIGKILL
  end_process(thread.mm());
}

void TrapPlatform::handle(Shard& shard, const Notification& n) {
  const auto it = by_tid_.find(static_cast<pid_t>(n.tid));
  GuestThread* thread = it == by_tid_.end() ? nullptr : it->second;
  if (thread && thread->mm().gone) return;
  if (n.nr == SYS_clone) {
    if (!thread) return deny(n);
    return handle_clone(thread, n);
  }
  if (n.nr != SYS_getppid) return deny(n);
  if (n.args[1] == UKS_HELLO) return handle_hello(n);
  if (n.args[1] != UKS_HANDOFF || !thread || n.args[2] != thread->index()) return deny(n);
  // Unanswered, or copying, it cannot come in.
  if (thread->in_sentry || thread->taken) return deny(n);
  if (thread->copying == Copying::kReporting) return turns_ended(*thread, n);

  thread->in_sentry = true;
  thread->notification = n.id;
  thread->kicked = false;
  thread->load_call();
  if (!is_sound_report(*thread)) {
    // It waits for the keeper's SIGKILL, unanswered.
    thread->in_sentry = false;
    return;
  }
  if (thread == shard.zygote) {
    // Idle again, or the last clone is reported: if that failed the pool stays smaller.
    if (thread->event == UKS_EVENT_CLONED && thread->result < 0 && thread->clone_child) {
      abandon_child(thread->clone_child);
      in_the_making_--;
      pause_refill();
    }
    shard.zygote_idle = true;
    return;
  }
  (void)offer_to_copy(*thread);
  if (thread->task == nullptr) {
    const bool from_zygote = thread->event == UKS_EVENT_DONE && thread->token == 1;
    if (from_zygote) {
      thread->token = 0;
      in_the_making_--;
      pool_.push_back(thread);
      client_->on_pool_refilled();
      return;
    }
    end_thread(thread);
    return;
  }
  client_->on_handoff(*thread);
}

// After the order to clone only its report can follow; whatever else comes, or a report that cannot
// be true, is a guest that goes around its stub. Otherwise the kernel would lose count of host
// processes.
bool TrapPlatform::is_sound_report(GuestThread& thread) {
  const bool ordered = std::exchange(thread.clone_ordered, false);
  if (ordered != (thread.event == UKS_EVENT_CLONED)) {
    end_liar(thread,
             ordered ? "it kept a clone to itself" : "it reported a clone that nobody ordered");
    return false;
  }
  if (!ordered) return true;
  const bool made = !std::exchange(thread.clone_approved, false);
  if (thread.result > 0) {
    if (made) return child_reported(thread);
    end_liar(thread, "it reported a clone that it never made");
    return false;
  }
  if (!made && thread.result < 0) return true;
  // Without child here, it has already said hello.
  const GuestThread* child = thread.clone_child;
  if (thread.result == 0 || !child) {
    end_liar(thread, "it denied its child");
    return false;
  }
  AddressSpace& mm = thread.mm();
  if (&child->mm() == &mm) {
    const auto status = read_host_proc(mm, "status");
    const size_t at = status ? status->find("\nThreads:") : std::string::npos;
    const uint64_t threads =
        at == std::string::npos ? 0 : strtoull(status->c_str() + at + 9, nullptr, 10);
    if (threads <= mm.threads.size() + kLeavingThreads) return true;
    end_liar(thread, "it has more threads than were ordered");
    return false;
  }
  if (thread.task == nullptr) return true;  // a zygote, which runs no guest
  if (std::exchange(mm.failed_since, sweeps_) != sweeps_) mm.failed_clones = 0;
  if (++mm.failed_clones <= kMaxFailedClones) return true;
  end_liar(thread, "all its clones fail");
  return false;
}

// The parent says which host process its new child is: the only way to learn of one that dies
// before its hello. A lie harms the liar alone: what is named must be a child of ours that nobody
// knows yet.
bool TrapPlatform::child_reported(GuestThread& parent) {
  GuestThread* child = parent.clone_child;
  if (!child && parent.cloned_pid != 0 && parent.result != parent.cloned_pid) {
    end_liar(parent, "it named a stranger as its child");
    return false;
  }
  if (!child || child->mm().host_pid != 0) return true;
  const auto pid = static_cast<pid_t>(parent.result);
  const auto dead = std::find(dead_unheard_.begin(), dead_unheard_.end(), pid);
  const bool died = dead != dead_unheard_.end();
  if (died) dead_unheard_.erase(dead);
  if (parent.result == pid && is_child(pid) && !by_pid_.contains(pid)) {
    // From here on the child's fate no longer hangs on its parent, which may exec or exit first.
    if (unheard_.try_emplace(pid, child).second) parent.unlink_child();
    return true;
  }
  if (died) {
    child_vanished(child);
    return true;
  }
  end_liar(parent, "it named a stranger as its child");
  return false;
}

void TrapPlatform::child_vanished(GuestThread* child) {
  if (child->token == 1) in_the_making_--;
  if (child->task) client_->on_gone(*child);
  abandon_child(child);
}

void TrapPlatform::handle_clone(GuestThread* thread, const Notification& n) {
  // All six registers, once: nothing else is approved (HAZARDS S3).
  if (!thread->clone_approved ||
      !std::equal(thread->clone_args.begin(), thread->clone_args.end(), std::begin(n.args))) {
    const auto it = by_tid_.find(static_cast<pid_t>(n.tid));
    LOG_WARN_LIMITED("host thread {} made an unordered clone; its process is ended", n.tid);
    end_process(it->second->mm());
    return;
  }
  thread->clone_approved = false;
  outgoing_.push_back({&notifier_of(*thread), n.id, true, -1, 0, 0, {}, {}});
}

void TrapPlatform::handle_hello(const Notification& n) {
  const auto it = awaited_.find(n.args[2]);
  const auto tid = static_cast<pid_t>(n.tid);
  if (it == awaited_.end()) return deny(n);
  GuestThread* thread = it->second;
  // The token is one of the guest's own, but is it of this child? A process that passed as a thread
  // would be unknown to us, and live on when its guest is dead.
  const bool process = thread->mm().host_pid == 0;
  if (is_child(tid) != process || (process && by_pid_.contains(tid))) return deny(n);
  if (const auto known = by_tid_.find(tid); known != by_tid_.end()) {
    // Either a thread that we know says hello again, or that thread left without a word and its
    // number has come to somebody else. The process that it is, or was, of ends.
    GuestThread* ghost = known->second;
    by_tid_.erase(known);
    end_liar(*ghost, "it said hello twice, or left in silence");
    if (&ghost->mm() == &thread->mm()) return;
  }
  awaited_.erase(it);
  if (GuestThread* parent = thread->clone_parent) {
    parent->cloned_pid = tid;
    parent->unlink_child();
  }
  thread->host_tid = tid;
  by_tid_[tid] = thread;
  thread->in_sentry = true;
  thread->notification = n.id;
  thread->clear_data();
  AddressSpace& mm = thread->mm();
  if (mm.host_pid != 0) {  // a new thread of a known process
    if (thread->task == nullptr) {
      end_thread(thread);
      return;
    }
    client_->on_started(*thread);
    return;
  }
  mm.host_pid = tid;
  by_pid_[tid] = Ref<AddressSpace>(&mm);
  unheard_.erase(tid);
  std::erase(dead_unheard_, tid);
  thread->awaits_window = true;
  if (thread->token == 1) {  // a pool stub: map the window, come back
    Reply reply;
    reply.action = UKS_ACTION_AGAIN;
    this->reply(*thread, std::move(reply));
  } else if (thread->task == nullptr) {  // its guest was killed meanwhile
    Reply reply;
    reply.action = UKS_ACTION_EXIT_GROUP;
    this->reply(*thread, std::move(reply));
  } else {
    client_->on_started(*thread);
  }
}

}  // namespace uks
