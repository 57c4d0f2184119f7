// chmod, chown, utime families; umask.
#include <sys/time.h>
#include <utime.h>

#include <array>

#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/ops.h"

namespace uks {
namespace {

// The place of a descriptor, for f*() calls. EBADF for O_PATH ones.
Result<Path> place_of_fd(Task& task, int fd) {
  Ref<File> file = TRY(task.fds().get_io(fd));
  Path place = place_of(*file);
  if (!place) return Err(EBADF);
  return place;
}

Result<Path> place_at(Task& task, int dirfd, UserPath path, int flags) {
  uint64_t walk = (flags & AT_SYMLINK_NOFOLLOW) ? 0 : kFollowLast;
  if (flags & AT_EMPTY_PATH) walk |= kEmptyPath;
  Path place = TRY(resolve_at(task, dirfd, path, walk));
  if (!place || !place.inode()) return Err(ENOENT);
  return place;
}

Result<int64_t> do_chmod(Task& task, int dirfd, UserPath path, uint32_t mode, int flags) {
  Path place = TRY(place_at(task, dirfd, path, flags));
  TRY(change_mode(task, place, mode));
  return 0;
}

Result<int64_t> do_chown(Task& task, int dirfd, UserPath path, uint32_t owner, uint32_t group,
                         int flags) {
  if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) return Err(EINVAL);
  Path place = TRY(place_at(task, dirfd, path, flags));
  TRY(change_owner(task, place, owner, group));
  return 0;
}

// A null path means the descriptor itself (futimens).
Result<int64_t> do_utimes(Task& task, int dirfd, UserPath path, const timespec* times, int flags) {
  if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) return Err(EINVAL);
  for (int i = 0; times && i < 2; ++i) {
    long n = times[i].tv_nsec;
    if (n != UTIME_NOW && n != UTIME_OMIT && (n < 0 || n > 999'999'999)) return Err(EINVAL);
  }
  if (!path && dirfd != AT_FDCWD) {
    if (flags) return Err(EINVAL);
    TRY(change_times(task, TRY(place_of_fd(task, dirfd)), times));
    return 0;
  }
  TRY(change_times(task, TRY(place_at(task, dirfd, path, flags)), times));
  return 0;
}

Result<int64_t> do_utimes_us(Task& task, int dirfd, UserPath path, UserIn user_times) {
  if (!user_times) return do_utimes(task, dirfd, path, nullptr, 0);
  auto tv = TRY((task.copy_in<std::array<timeval, 2>>(user_times)));
  std::array<timespec, 2> ts;
  for (size_t i = 0; i < 2; ++i) {
    if (tv[i].tv_usec < 0 || tv[i].tv_usec >= 1'000'000) return Err(EINVAL);
    ts[i] = {tv[i].tv_sec, tv[i].tv_usec * 1000};
  }
  return do_utimes(task, dirfd, path, ts.data(), 0);
}

}  // namespace

Result<int64_t> sys_chmod(Task& task, UserPath path, uint32_t mode) {
  return do_chmod(task, AT_FDCWD, path, mode, 0);
}

Result<int64_t> sys_fchmod(Task& task, int fd, uint32_t mode) {
  TRY(change_mode(task, TRY(place_of_fd(task, fd)), mode));
  return 0;
}

Result<int64_t> sys_fchmodat(Task& task, int dirfd, UserPath path, uint32_t mode) {
  return do_chmod(task, dirfd, path, mode, 0);
}

Result<int64_t> sys_fchmodat2(Task& task, int dirfd, UserPath path, uint32_t mode, uint32_t flags) {
  if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) return Err(EINVAL);
  return do_chmod(task, dirfd, path, mode, static_cast<int>(flags));
}

Result<int64_t> sys_chown(Task& task, UserPath path, uint32_t owner, uint32_t group) {
  return do_chown(task, AT_FDCWD, path, owner, group, 0);
}

Result<int64_t> sys_lchown(Task& task, UserPath path, uint32_t owner, uint32_t group) {
  return do_chown(task, AT_FDCWD, path, owner, group, AT_SYMLINK_NOFOLLOW);
}

Result<int64_t> sys_fchown(Task& task, int fd, uint32_t owner, uint32_t group) {
  TRY(change_owner(task, TRY(place_of_fd(task, fd)), owner, group));
  return 0;
}

Result<int64_t> sys_fchownat(Task& task, int dirfd, UserPath path, uint32_t owner, uint32_t group,
                             int flags) {
  return do_chown(task, dirfd, path, owner, group, flags);
}

Result<int64_t> sys_utime(Task& task, UserPath path, UserIn times) {
  if (!times) return do_utimes(task, AT_FDCWD, path, nullptr, 0);
  auto t = TRY(task.copy_in<utimbuf>(times));
  std::array<timespec, 2> ts{{{t.actime, 0}, {t.modtime, 0}}};
  return do_utimes(task, AT_FDCWD, path, ts.data(), 0);
}

Result<int64_t> sys_utimes(Task& task, UserPath path, UserIn times) {
  return do_utimes_us(task, AT_FDCWD, path, times);
}

Result<int64_t> sys_futimesat(Task& task, int dirfd, UserPath path, UserIn times) {
  return do_utimes_us(task, dirfd, path, times);
}

Result<int64_t> sys_utimensat(Task& task, int dirfd, UserPath path, UserIn times, int flags) {
  if (!times) return do_utimes(task, dirfd, path, nullptr, flags);
  auto ts = TRY((task.copy_in<std::array<timespec, 2>>(times)));
  // Nothing to change: not even the path is looked at (fs/utimes.c).
  if (ts[0].tv_nsec == UTIME_OMIT && ts[1].tv_nsec == UTIME_OMIT) return 0;
  return do_utimes(task, dirfd, path, ts.data(), flags);
}

Result<int64_t> sys_umask(Task& task, int mask) {
  return std::exchange(task.fs().umask, static_cast<uint32_t>(mask) & 0777);
}

}  // namespace uks
