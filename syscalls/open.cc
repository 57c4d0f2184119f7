// open, creat, openat, openat2.
#include <linux/openat2.h>

#include <algorithm>
#include <array>

#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/ops.h"

namespace uks {
namespace {

// What open(2) knows; the older calls ignore other bits, openat2 refuses them.
constexpr uint64_t kKnownFlags = O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND |
                                 O_NONBLOCK | O_SYNC | O_DSYNC | O_ASYNC | O_DIRECT |
                                 0100000 /* O_LARGEFILE */ | O_DIRECTORY | O_NOFOLLOW | O_NOATIME |
                                 O_CLOEXEC | O_PATH | O_TMPFILE;

// A run after a wait.
std::optional<Result<int64_t>> open_on(Task& task, bool close_on_exec) {
  if (!task.call().data) return std::nullopt;
  const auto file = task.call().data->continue_open(task);
  if (!file) return std::nullopt;
  if (!*file) return Err(file->error());
  const auto fd = task.fds().install(task, **file, close_on_exec);
  return fd ? Result<int64_t>(*fd) : Err(fd.error());
}

Result<int64_t> do_open(Task& task, int dirfd, UserPath user_path, const OpenHow& how) {
  if (const auto done = open_on(task, how.flags & O_CLOEXEC)) return *done;
  std::string path = TRY(task.copy_in_path(user_path));
  Path base = TRY(base_of(task, dirfd, path));
  Ref<File> file = TRY(open_file(task, base, path, how));
  return TRY(task.fds().install(task, std::move(file), how.flags & O_CLOEXEC));
}

OpenHow how_of(int flags, uint32_t mode) {
  flags &= static_cast<int>(kKnownFlags);
  return {.flags = flags | 0100000, .mode = mode & 07777, .resolve = 0};
}

}  // namespace

Result<int64_t> sys_open(Task& task, UserPath path, int flags, uint32_t mode) {
  return do_open(task, AT_FDCWD, path, how_of(flags, mode));
}

Result<int64_t> sys_openat(Task& task, int dirfd, UserPath path, int flags, uint32_t mode) {
  return do_open(task, dirfd, path, how_of(flags, mode));
}

Result<int64_t> sys_creat(Task& task, UserPath path, uint32_t mode) {
  return do_open(task, AT_FDCWD, path, how_of(O_CREAT | O_WRONLY | O_TRUNC, mode));
}

Result<int64_t> sys_openat2(Task& task, int dirfd, UserPath path, UserIn how, uint64_t size) {
  if (size < sizeof(open_how)) return Err(EINVAL);
  if (size > 4096) return Err(E2BIG);
  std::array<char, 4096> raw{};
  TRY(task.copy_in(how, raw.data(), size));
  // copy_struct_from_user(): fields of a future kernel must be zero.
  if (std::any_of(raw.begin() + sizeof(open_how), raw.begin() + size,
                  [](char c) { return c != 0; }))
    return Err(E2BIG);
  open_how h;
  memcpy(&h, raw.data(), sizeof h);
  if (h.flags & ~kKnownFlags) return Err(EINVAL);
  constexpr uint64_t kResolve = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS |
                                RESOLVE_BENEATH | RESOLVE_IN_ROOT | RESOLVE_CACHED;
  if (h.resolve & ~kResolve) return Err(EINVAL);
  if ((h.resolve & RESOLVE_BENEATH) && (h.resolve & RESOLVE_IN_ROOT)) return Err(EINVAL);
  bool creates = (h.flags & O_CREAT) || (h.flags & O_TMPFILE & ~O_DIRECTORY);
  if (h.mode & ~07777ull || (h.mode && !creates)) return Err(EINVAL);
  if ((h.flags & O_PATH) && (h.flags & ~(uint64_t{O_PATH} | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)))
    return Err(EINVAL);
  if (const auto done = open_on(task, h.flags & O_CLOEXEC)) return *done;
  // Nothing here is sure to be cached: the caller tries again without.
  if (h.resolve & RESOLVE_CACHED) return Err(EAGAIN);
  std::string text = TRY(task.copy_in_path(path));
  // In a rooted or beneath walk an absolute path starts at the descriptor, too.
  Path base;
  if (h.resolve & (RESOLVE_IN_ROOT | RESOLVE_BENEATH)) {
    base = TRY(base_of(task, dirfd, "."));
  } else {
    base = TRY(base_of(task, dirfd, text));
  }
  OpenHow wanted{.flags = static_cast<int>(h.flags) | 0100000,
                 .mode = static_cast<uint32_t>(h.mode),
                 .resolve = h.resolve};
  Ref<File> file = TRY(open_file(task, base, text, wanted));
  return TRY(task.fds().install(task, std::move(file), h.flags & O_CLOEXEC));
}

}  // namespace uks
