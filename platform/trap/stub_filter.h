// The seccomp filter of stub processes (DESIGN §3.3), from one table.
#pragma once
#include <cstdint>

#include "platform/host/bpf_dsl.h"

namespace uks {

// Who answers what a stub asks for: a seccomp listener, or a tracer (SECCOMP_RET_TRACE).
enum class HandOff { kListener, kTracer };

// `syscall_ip`: the address behind the stub's one syscall instruction. Calls from anywhere else
// trap into the stub; calls from there are harmless with any arguments, or need the sentry's
// approval.
bpf::Program stub_filter(uint64_t syscall_ip, HandOff way = HandOff::kListener);

}  // namespace uks
