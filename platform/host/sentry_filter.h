// The seccomp filter of the sentry itself: no open, no socket, no exec, no process_vm_*, no kill.
#pragma once
#include "platform/base/result.h"
#include "platform/host/bpf_dsl.h"

namespace uks {

// `tracing`: platform ptrace. `sanitized`: what the sanitizers' run-time library calls
// (sanitizer_calls.h).
bpf::Program sentry_filter(bool tracing = false, bool sanitized = false);

// Puts it on all threads of the calling process, and a SIGSYS handler that names the call and ends
// the process: a hit is a bug of ours or an attack, and a failure of any test.
Result<void> install_sentry_filter(bool tracing = false);

}  // namespace uks
