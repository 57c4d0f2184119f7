// stat, lstat, fstat, newfstatat, statx; access, faccessat, faccessat2.
#include <linux/stat.h>
#include <sys/sysmacros.h>

#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/ops.h"
#include "sentry/vfs/permissions.h"

namespace uks {
namespace {

Result<int64_t> put_stat(Task& task, const Attr& a, UserAddr to) {
  struct stat s{};
  s.st_dev = a.dev;
  s.st_ino = a.ino;
  s.st_nlink = a.nlink;
  s.st_mode = a.mode;
  s.st_uid = a.uid;
  s.st_gid = a.gid;
  s.st_rdev = a.rdev;
  s.st_size = static_cast<off_t>(a.size);
  s.st_blksize = a.blksize;
  s.st_blocks = static_cast<blkcnt_t>(a.blocks);
  s.st_atim = a.atime;
  s.st_mtim = a.mtime;
  s.st_ctim = a.ctime;
  static_assert(sizeof s == 144);
  TRY(task.copy_out(to, s));
  return 0;
}

Result<Attr> attr_of_fd(Task& task, int fd) {
  Ref<File> file = TRY(task.fds().get(fd));
  Ref<Inode> inode(file->inode());
  if (!inode) return Err(EBADF);
  return inode->getattr();
}

Result<Attr> attr_at(Task& task, int dirfd, UserPath path, int flags) {
  uint64_t walk = (flags & AT_SYMLINK_NOFOLLOW) ? 0 : kFollowLast;
  if (flags & AT_EMPTY_PATH) walk |= kEmptyPath;
  Path place = TRY(resolve_at(task, dirfd, path, walk));
  if (!place || !place.inode()) return Err(ENOENT);
  Ref<Inode> inode = place.dentry->inode_ref();
  return inode->getattr();
}

constexpr int kStatFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;

statx_timestamp to_statx(const timespec& t) {
  statx_timestamp s{};
  s.tv_sec = t.tv_sec;
  s.tv_nsec = static_cast<uint32_t>(t.tv_nsec);
  return s;
}

Result<int64_t> do_access(Task& task, int dirfd, UserPath path, int mode, int flags) {
  if (mode & ~7) return Err(EINVAL);
  if (flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) return Err(EINVAL);
  uint64_t walk = (flags & AT_SYMLINK_NOFOLLOW) ? 0 : kFollowLast;
  if (flags & AT_EMPTY_PATH) walk |= kEmptyPath;
  Path place = TRY(resolve_at(task, dirfd, path, walk));
  if (!place.inode()) return Err(ENOENT);
  Ref<Inode> inode = place.dentry->inode_ref();
  Attr attr = TRY(inode->getattr());
  if (mode == 0) return 0;
  Credentials creds = task.copy_creds();
  if (!(flags & AT_EACCESS)) {
    // access(2) asks for the real ids; root's capabilities count only if the real uid is root's.
    creds.fsuid = creds.ruid;
    creds.fsgid = creds.rgid;
    if (!(creds.securebits & 4 /* SECBIT_NO_SETUID_FIXUP */))
      creds.cap_effective = creds.ruid == 0 ? creds.cap_permitted : 0;
  }
  if ((mode & kMayExec) && attr.is_regular() && place.mount &&
      (place.mount->flags() & 8 /* MS_NOEXEC */))
    return Err(EACCES);
  TRY(check_access(creds, attr, mode));
  if ((mode & kMayWrite) && (attr.is_regular() || attr.is_dir() || attr.is_link()))
    TRY(want_write(place));
  return 0;
}

}  // namespace

Result<int64_t> sys_stat(Task& task, UserPath path, UserOut statbuf) {
  return put_stat(task, TRY(attr_at(task, AT_FDCWD, path, 0)), statbuf);
}

Result<int64_t> sys_lstat(Task& task, UserPath path, UserOut statbuf) {
  return put_stat(task, TRY(attr_at(task, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)), statbuf);
}

Result<int64_t> sys_fstat(Task& task, int fd, UserOut statbuf) {
  return put_stat(task, TRY(attr_of_fd(task, fd)), statbuf);
}

Result<int64_t> sys_newfstatat(Task& task, int dirfd, UserPath path, UserOut statbuf, int flags) {
  if (flags & ~kStatFlags) return Err(EINVAL);
  return put_stat(task, TRY(attr_at(task, dirfd, path, flags)), statbuf);
}

Result<int64_t> sys_statx(Task& task, int dirfd, UserPath path, uint32_t flags, uint32_t mask,
                          UserOut statxbuf) {
  if (flags & ~(static_cast<uint32_t>(kStatFlags) | AT_STATX_SYNC_TYPE)) return Err(EINVAL);
  if ((flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE) return Err(EINVAL);
  if (mask & STATX__RESERVED) return Err(EINVAL);
  uint64_t walk = (flags & AT_SYMLINK_NOFOLLOW) ? 0 : kFollowLast;
  if (flags & AT_EMPTY_PATH) walk |= kEmptyPath;
  Path place = TRY(resolve_at(task, dirfd, path, walk));
  if (!place.inode()) return Err(ENOENT);
  Ref<Inode> inode = place.dentry->inode_ref();
  Attr a = TRY(inode->getattr());
  struct statx s{};
  s.stx_mask = STATX_BASIC_STATS | STATX_MNT_ID;
  s.stx_blksize = a.blksize;
  s.stx_nlink = a.nlink;
  s.stx_uid = a.uid;
  s.stx_gid = a.gid;
  s.stx_mode = static_cast<uint16_t>(a.mode);
  s.stx_ino = a.ino;
  s.stx_size = a.size;
  s.stx_blocks = a.blocks;
  s.stx_atime = to_statx(a.atime);
  s.stx_mtime = to_statx(a.mtime);
  s.stx_ctime = to_statx(a.ctime);
  if (a.btime) {
    s.stx_btime = to_statx(*a.btime);
    s.stx_mask |= STATX_BTIME;
  }
  s.stx_rdev_major = major(a.rdev);
  s.stx_rdev_minor = minor(a.rdev);
  s.stx_dev_major = major(a.dev);
  s.stx_dev_minor = minor(a.dev);
  s.stx_attributes_mask = STATX_ATTR_MOUNT_ROOT;
  if (place.mount) {
    s.stx_mnt_id = static_cast<uint64_t>(place.mount->id());
    if (place.dentry == place.mount->root()) s.stx_attributes |= STATX_ATTR_MOUNT_ROOT;
  }
  static_assert(sizeof s == 256);
  TRY(task.copy_out(statxbuf, s));
  return 0;
}

Result<int64_t> sys_access(Task& task, UserPath path, int mode) {
  return do_access(task, AT_FDCWD, path, mode, 0);
}

Result<int64_t> sys_faccessat(Task& task, int dirfd, UserPath path, int mode) {
  return do_access(task, dirfd, path, mode, 0);
}

Result<int64_t> sys_faccessat2(Task& task, int dirfd, UserPath path, int mode, int flags) {
  return do_access(task, dirfd, path, mode, flags);
}

}  // namespace uks
