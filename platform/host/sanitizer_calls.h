// Host calls that only the run-time libraries of the sanitizers make. The presets asan and tsan add
// them to the filters of sentry and gofer; no shipped binary has them.
#pragma once
#include "platform/host/bpf_dsl.h"

namespace uks {

#ifdef UKS_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// openat(2) that only reads: a report looks for symbols in our own binary and its libraries.
bpf::Cond report_reads_file();

// Replaces the rules of mmap, mprotect and madvise by looser ones and adds what a report needs.
void allow_sanitizer_calls(bpf::Policy& policy);

}  // namespace uks
