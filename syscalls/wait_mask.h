// The temporary signal mask of ppoll, pselect6 and epoll_pwait.
#pragma once
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"

namespace uks {

// At every run of the handler: sets the mask (none if `mask` is null) unless a run before did.
// EINVAL: a size other than 8. EFAULT.
inline Result<void> enter_wait_mask(Task& task, UserAddr mask, uint64_t size) {
  if (!mask || (task.call().woken && task.saved_mask)) return {};
  if (size != sizeof(SignalMask)) return Err(EINVAL);
  const auto wanted = TRY(task.copy_in<SignalMask>(mask));
  if (!task.saved_mask) task.saved_mask = task.blocked_signals;
  task.kernel().set_blocked(task, wanted & ~kUnblockable);
  return {};
}

// With the handler's result: puts the old mask back, unless the call waits on, or a signal ended
// it: then the signal is delivered under the temporary mask and delivery restores the old one
// (restore_saved_sigmask_unless).
inline Result<int64_t> leave_wait_mask(Task& task, Result<int64_t> result) {
  if (!task.saved_mask) return result;
  if (!result && (result.error() == kBlocked || result.error() == EINTR ||
                  result.error().value >= kRestartSys)) {
    return result;
  }
  task.kernel().set_blocked(task, *task.saved_mask);
  task.saved_mask.reset();
  return result;
}

}  // namespace uks
