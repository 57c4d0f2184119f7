// execve and execveat.
#include "sentry/task/exec.h"

#include <fcntl.h>

#include <algorithm>
#include <array>

#include "gen/syscalls.h"
#include "sentry/task/kernel_lock.h"

namespace uks {
namespace {

constexpr size_t kMaxString = 131072;  // MAX_ARG_STRLEN

// argv or envp that did not come along in the slot. A null pointer is an empty list, as on Linux.
// `left`: how many bytes may still come.
Result<std::vector<std::string>> copy_in_vector(Task& task, UserAddr vector, uint64_t& left) {
  if (!vector) return std::vector<std::string>{};
  if (task.thread) {
    if (auto strings = task.thread->prefetched_vector(vector.value)) return std::move(*strings);
  }
  std::vector<std::string> strings;
  std::array<uint64_t, 64> pointers;
  for (UserAddr at = vector;;) {
    // Up to the end of a page: the next one may not exist.
    const size_t n = std::min(sizeof pointers, static_cast<size_t>(4096 - at.value % 4096)) / 8;
    const size_t count = std::max<size_t>(n, 1);  // one that straddles pages
    TRY(task.copy_in(at, pointers.data(), count * 8));
    at = at + count * 8;
    for (size_t i = 0; i < count; i++) {
      if (!pointers[i]) return strings;
      auto text = task.copy_in_string({pointers[i]}, kMaxString + 1);
      if (!text) return Err(text.error() == ENAMETOOLONG ? Errno{E2BIG} : text.error());
      const uint64_t size = text->size() + 1 + sizeof(uint64_t);
      if (size > left) return Err(E2BIG);
      left -= size;
      strings.push_back(std::move(*text));
    }
    // Each string was a host call: others get their turn in between.
    yield_kernel_lock();
    if (task.dead) return Err(EINTR);
  }
}

Result<int64_t> do_exec(Task& task, int dirfd, UserPath path, UserAddr argv, UserAddr envp,
                        int flags) {
  if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) return Err(EINVAL);
  ExecRequest request;
  request.dirfd = dirfd;
  request.flags = flags;
  request.path = TRY(task.copy_in_path(path));
  uint64_t left = argument_limit(task.group());
  request.argv = TRY(copy_in_vector(task, argv, left));
  request.envp = TRY(copy_in_vector(task, envp, left));
  return exec_task(task, std::move(request));
}

}  // namespace

Result<int64_t> sys_execve(Task& task, UserPath path, UserAddr argv, UserAddr envp) {
  return do_exec(task, AT_FDCWD, path, argv, envp, 0);
}

Result<int64_t> sys_execveat(Task& task, int dirfd, UserPath path, UserAddr argv, UserAddr envp,
                             int flags) {
  return do_exec(task, dirfd, path, argv, envp, flags);
}

}  // namespace uks
