// Threads that may not be had.
#pragma once
#include <functional>

#include "platform/base/result.h"

namespace uks {

// Runs `body` in a detached thread. EAGAIN: a limit of the host (RLIMIT_NPROC, pids.max) is
// reached, which guests can see to; std::thread would end the process.
Result<void> start_thread(std::function<void()> body);

}  // namespace uks
