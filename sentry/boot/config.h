// SandboxConfig: all that the keeper tells the sentry at start, and its encoding. Plain data.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/result.h"
#include "sentry/vfs/view_config.h"

namespace uks {

struct SandboxConfig {
  // What to run. argv is not empty; argv[0] is looked up in the PATH of `env` if it holds no slash.
  std::vector<std::string> argv;
  std::vector<std::string> env;  // K=V
  std::string workdir = "/";     // absolute, in the guest's tree
  std::string hostname = "uks";

  ViewConfig view;

  // Identity of the first process.
  uint32_t uid = 0, gid = 0;
  std::vector<uint32_t> groups;
  bool virtual_root = false;     // uid 0 inside for a caller who is not root: chown is virtual
  bool no_new_privs = true;      // PR_SET_NO_NEW_PRIVS of the first process
  uint32_t umask = 022;          // the caller's
  uint64_t ignored_signals = 0;  // bit n-1: signal n is SIG_IGN for the first process (nohup)
  uint64_t blocked_signals = 0;  // bit n-1: signal n is blocked in the first process

  struct Limit {
    uint64_t soft, hard;  // RLIM_INFINITY is ~0
  };
  static constexpr size_t kLimits = 16;  // RLIMIT_CPU … RLIMIT_RTTIME
  std::array<Limit, kLimits> rlimits{};  // the caller's; the guest's own, all virtual

  // Which of descriptors 0, 1 and 2 the caller really had.
  std::array<bool, 3> stdio_open{true, true, true};

  bool strace = false;  // lines go to keeper::kStraceFd
  bool quiet = false;
  bool summary = false;  // report discarded files with kSummary
};

// MessagePack, because arguments, variables and paths are bytes and need not be UTF-8.
std::string encode_config(const SandboxConfig& config);
// EINVAL for what encode_config did not make.
Result<SandboxConfig> decode_config(std::string_view bytes);
// Reads the whole of `fd` from offset 0 and decodes it. At most 64 MiB: EFBIG.
Result<SandboxConfig> read_config(int fd);

}  // namespace uks
