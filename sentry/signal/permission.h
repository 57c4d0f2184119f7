// Who may send signals to whom, and what such a signal says.
#pragma once
#include "sentry/task/task.h"

namespace uks {

// kill(2), "Permissions". EPERM.
Result<void> check_kill_permission(Task& task, ThreadGroup& target, int signo);
// The siginfo of a signal that `task` sends: `code` is SI_USER or SI_TKILL.
SignalInfo user_signal(Task& task, int signo, int code);

}  // namespace uks
