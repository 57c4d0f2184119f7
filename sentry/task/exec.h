// execve: replacing a process's image. Always in a fresh stub process.
#pragma once
#include <string>
#include <vector>

#include "sentry/task/task.h"

namespace uks {

struct ExecRequest {
  int dirfd = -100;  // AT_FDCWD
  std::string path;
  int flags = 0;  // AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW
  std::vector<std::string> argv, envp;
};

// Bytes of arguments and environment, pointers included, that execve may be given; more: E2BIG
// (execve(2), "Limits on size of arguments and environment").
uint64_t argument_limit(const ThreadGroup& group);

// Loads the image and starts it. Errors leave the old image running; kBlocked while no fresh stub
// is at hand; kNoReply when the new image is on its way. Also starts a task that has no image yet.
Result<int64_t> exec_task(Task& task, ExecRequest request);

}  // namespace uks
