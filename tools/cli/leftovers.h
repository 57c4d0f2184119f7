// The end of a sandbox's processes. Those that lost their parent become the keeper's children (it
// is a subreaper).
#pragma once
#include <sys/types.h>

#include <chrono>
#include <initializer_list>

#include "tools/cli/guard.h"
#include "tools/cli/launch.h"

namespace uks::cli {

// Waits for children that have ended, except those named. Children that uks had before it started
// the sandbox (`exec uks` in a shell with background jobs) are reaped too: nobody else can.
void reap_orphans(std::initializer_list<pid_t> spared);

// Kills and reaps every child whose session is `session` but its leader, for at most `limit`. The
// sentry leads a session of its own, its stubs cannot leave it, and nothing else is in it.
void kill_leftovers(pid_t session, std::chrono::milliseconds limit);

// Ends all processes of a sandbox and waits for that, as long as no host file system keeps them.
// Any of them may not exist (yet).
void end_sandbox(const Child& sentry, const Child& gofer, Guard& guard);

}  // namespace uks::cli
