// The guard: a child of the keeper whose one task is to outlive it. A stub that leaves out its own
// PR_SET_PDEATHSIG would otherwise run on when the keeper is killed.
#pragma once
#include <sys/types.h>

#include "platform/base/result.h"
#include "tools/cli/launch.h"

namespace uks::cli {

struct Guard {
  Child child;
  UniqueFd alive;  // the keeper's end of the pipe that the guard waits on
};

// Starts one: when this process ends, however it does, the whole process group of `sentry` is
// killed; stubs cannot leave it. Call it before a stub can run guest code.
Result<Guard> start_guard(pid_t sentry);

// Ends the guard without a kill. Call it while the sentry's number is still its own.
void dismiss(Guard& guard);
// Waits for its end.
void reap(Guard& guard);

}  // namespace uks::cli
