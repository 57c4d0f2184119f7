// The keeper's signals: taken synchronously, never by handlers.
#pragma once
#include <signal.h>

#include <cstdint>

#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks::cli {

struct SignalState {
  uint64_t ignored;  // bit n-1: signal n was ignored when uks started
  uint64_t blocked;  // likewise, blocked
  sigset_t taken;    // what `fd` delivers
  UniqueFd fd;       // a non-blocking signalfd
};

// Blocks the signals that are for the guest or for us, and SIGTTOU; ignores SIGPIPE. What the
// caller had ignored stays ignored (nohup), except SIGCHLD, without which we could not wait.
Result<SignalState> take_signals();

// Stops this process the way `signo` (a stop signal) does; returns when it is continued. Does
// nothing in an orphaned process group, as the kernel has it for all but SIGSTOP. For SIGTTIN and
// SIGTTOU in the background the whole job stops, until it is in the foreground. False: it is in the
// background and cannot be stopped, so that the terminal is not for it (EIO).
bool stop_self(int signo);

}  // namespace uks::cli
