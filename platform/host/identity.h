// The identity of the processes that run or stand next to untrusted code.
#pragma once
#include <sys/types.h>

#include "platform/base/result.h"

namespace uks {

struct SentryIdentity {
  uid_t uid;
  gid_t gid;
};

// The unprivileged identity that the sentry with this process id takes when it is started as root:
// 64000 … 64999, which Debian policy 9.2 leaves unassigned; not `nobody`, whom other programs use.
SentryIdentity sentry_identity_for(pid_t sentry);

// Gives up all rights for good: as root, changes to sentry_identity_for(getpid()) without further
// groups; always: no capabilities, no_new_privs, PDEATHSIG SIGKILL (set*id clears it), and
// dumpable, so that the keeper can open /proc/PID/mem of the stubs. Must be called while
// single-threaded. Where the user namespace maps no such id the id stays what it is, without
// capabilities. Errors: what set*id(2) or prctl(2) say; the process must then not go on.
Result<void> drop_to_sentry_identity();

// PR_SET_PDEATHSIG SIGKILL; ends the process at once if `parent` is already gone.
Result<void> die_with_parent(pid_t parent);

}  // namespace uks
