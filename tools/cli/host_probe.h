// What this host's kernel offers, found by trying it in child processes.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "platform/host/features.h"

namespace uks::cli {

struct HostProbe {
  std::string kernel;                     // as uname -r
  std::array<bool, kFeatureCount> has{};  // by Feature; masks are not considered
  bool filters = false;                   // seccomp filters of any kind
  bool ptrace = false;                    // PTRACE_SEIZE of a child
  int seccomp_error = 0;                  // errno of making a listener; 0: it can be made
  int userns_error = 0;                   // errno of the namespaces that the sentry takes
  std::string userns_reason;              // which setting is the likely cause
  int landlock_abi = 0;                   // 0: none
  int cgroup_version = 0;                 // 0: no cgroup file system at /sys/fs/cgroup
  bool proc_mounted = false;              // /proc is procfs and shows this process
  bool children_list = false;             // /proc/PID/task/TID/children
  bool process_vm = false;                // process_vm_readv(2) of a child
  int yama_scope = -1;                    // kernel.yama.ptrace_scope; -1: no Yama
  int outer_filters = 0;                  // seccomp filters that this process is under already
};

// Takes a few milliseconds; must be called while the process has one thread.
HostProbe probe_host();

}  // namespace uks::cli
