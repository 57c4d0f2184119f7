// Waiting for children: what wait4 and waitid share.
#pragma once
#include <optional>

#include "sentry/task/task.h"

namespace uks {

struct WaitRequest {
  enum class Kind { kAny, kPid, kGroup } kind = Kind::kAny;
  pid_t id = 0;
  int options = 0;  // WNOHANG WEXITED WSTOPPED WCONTINUED WNOWAIT __WALL __WCLONE __WNOTHREAD
};

struct WaitResult {
  pid_t pid = 0;
  int status = 0;  // as wait4 gives it
  int code = 0;    // CLD_*
  uint32_t uid = 0;
  uint64_t user_ns = 0, system_ns = 0;
};

// Nothing: WNOHANG and no child is ready. ECHILD; blocks.
Result<std::optional<WaitResult>> wait_for_child(Task& task, const WaitRequest& request);

}  // namespace uks
