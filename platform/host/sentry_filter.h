// The seccomp filter of the sentry itself: no open, no socket, no exec, no process_vm_*, no kill.
#pragma once
#include "platform/base/result.h"
#include "platform/host/bpf_dsl.h"

namespace uks {

// `tracing`: platform ptrace.
bpf::Program sentry_filter(bool tracing = false);

// Puts it on all threads of the calling process, and a SIGSYS handler that names the call and ends the
// process: a hit is a bug of ours or an attack, and a failure of any test.
Result<void> install_sentry_filter(bool tracing = false);

}  // namespace uks
