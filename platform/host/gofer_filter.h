// The gofer's seccomp filter.
#pragma once
#include <span>

#include "platform/host/bpf_dsl.h"

namespace uks {

// Descriptors that the filter ties calls to.
struct GoferDescriptors {
  int proc_fd;  // the only directory for plain openat and the only source of linkat
  std::span<const int> connections;  // the only sockets to receive from and send to
  int inotify_fd;                    // of the only inotify instance, which may come later
  int log_fd;                        // the only descriptor to write(2) to, beside 2
};

// What a running gofer (all threads started) may call; `violation` for everything else.
// `sanitized` adds what the sanitizers' run-time library calls (sanitizer_calls.h).
bpf::Program gofer_filter(const GoferDescriptors& descriptors, const bpf::Rule& violation,
                          bool sanitized = false);

}  // namespace uks
