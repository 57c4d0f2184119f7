// execve and execveat.
#include "sentry/task/exec.h"

#include <fcntl.h>

#include <cstring>

#include "gen/syscalls.h"

namespace uks {
namespace {

constexpr size_t kMaxVectorBytes = 8 << 20;
constexpr size_t kMaxString = 131072;  // MAX_ARG_STRLEN

// argv or envp that did not come along in the slot. A null pointer is an empty list, as on Linux.
Result<std::vector<std::string>> copy_in_vector(Task& task, UserAddr vector) {
  if (!vector) return std::vector<std::string>{};
  if (task.thread) {
    if (auto strings = task.thread->prefetched_vector(vector.value)) return std::move(*strings);
  }
  std::vector<std::string> strings;
  size_t total = 0;
  for (uint64_t i = 0;; i++) {
    const auto pointer = TRY(task.copy_in<uint64_t>(vector + i * 8));
    if (!pointer) return strings;
    auto text = task.copy_in_string({pointer}, kMaxString + 1);
    if (!text) return Err(text.error() == ENAMETOOLONG ? Errno{E2BIG} : text.error());
    total += text->size() + 9;
    if (total > kMaxVectorBytes) return Err(E2BIG);
    strings.push_back(std::move(*text));
  }
}

Result<int64_t> do_exec(Task& task, int dirfd, UserPath path, UserAddr argv, UserAddr envp, int flags) {
  if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) return Err(EINVAL);
  ExecRequest request;
  request.dirfd = dirfd;
  request.flags = flags;
  request.path = TRY(task.copy_in_path(path));
  request.argv = TRY(copy_in_vector(task, argv));
  request.envp = TRY(copy_in_vector(task, envp));
  return exec_task(task, std::move(request));
}

}  // namespace

Result<int64_t> sys_execve(Task& task, UserPath path, UserAddr argv, UserAddr envp) {
  return do_exec(task, AT_FDCWD, path, argv, envp, 0);
}

Result<int64_t> sys_execveat(Task& task, int dirfd, UserPath path, UserAddr argv, UserAddr envp, int flags) {
  return do_exec(task, dirfd, path, argv, envp, flags);
}

}  // namespace uks
