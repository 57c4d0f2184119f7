// Making, removing, renaming and reading names.
#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/ops.h"
#include "sentry/vfs/permissions.h"

namespace uks {
namespace {

Result<int64_t> do_link(Task& task, int olddirfd, UserPath oldpath, int newdirfd, UserPath newpath,
                        int flags) {
  if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) return Err(EINVAL);
  uint64_t walk = (flags & AT_SYMLINK_FOLLOW) ? kFollowLast : 0;
  if (flags & AT_EMPTY_PATH) walk |= kEmptyPath;
  Path old_place = TRY(resolve_at(task, olddirfd, oldpath, walk));
  if (!old_place.inode()) return Err(ENOENT);
  std::string path = TRY(task.copy_in_path(newpath));
  Path base = TRY(base_of(task, newdirfd, path));
  TRY(make_link(task, old_place, base, path));
  return 0;
}

Result<int64_t> do_rename(Task& task, int olddirfd, UserPath oldpath, int newdirfd,
                          UserPath newpath, uint32_t flags) {
  std::string from = TRY(task.copy_in_path(oldpath));
  std::string to = TRY(task.copy_in_path(newpath));
  Path from_base = TRY(base_of(task, olddirfd, from));
  Path to_base = TRY(base_of(task, newdirfd, to));
  TRY(rename_file(task, from_base, from, to_base, to, flags));
  return 0;
}

Result<int64_t> do_readlink(Task& task, int dirfd, UserPath path, UserOut buf, int size) {
  if (size <= 0) return Err(EINVAL);
  std::string text = TRY(task.copy_in_path(path));
  Path base = TRY(base_of(task, dirfd, text));
  Path place = TRY(resolve(task, base, text, text.empty() ? kEmptyPath : 0));
  if (!place.inode()) return Err(ENOENT);
  // readlinkat(fd, ""): only for a descriptor of a link itself.
  if (!place.inode()->is_link()) return Err(text.empty() ? ENOENT : EINVAL);
  Ref<Inode> inode = place.dentry->inode_ref();
  std::string target = TRY(inode->readlink(task));
  size_t n = std::min(target.size(), static_cast<size_t>(size));
  TRY(task.copy_out(buf, target.data(), n));
  return static_cast<int64_t>(n);
}

Result<int64_t> do_unlink(Task& task, int dirfd, UserPath user_path, int flags) {
  std::string path = TRY(task.copy_in_path(user_path));
  Path base = TRY(base_of(task, dirfd, path));
  if (flags & AT_REMOVEDIR) {
    TRY(remove_directory(task, base, path));
  } else {
    TRY(remove_file(task, base, path));
  }
  return 0;
}

}  // namespace

Result<int64_t> sys_mkdirat(Task& task, int dirfd, UserPath user_path, uint32_t mode) {
  std::string path = TRY(task.copy_in_path(user_path));
  Path base = TRY(base_of(task, dirfd, path));
  TRY(make_directory(task, base, path, mode));
  return 0;
}

Result<int64_t> sys_mkdir(Task& task, UserPath path, uint32_t mode) {
  return sys_mkdirat(task, AT_FDCWD, path, mode);
}

Result<int64_t> sys_mknodat(Task& task, int dirfd, UserPath user_path, uint32_t mode,
                            uint32_t dev) {
  std::string path = TRY(task.copy_in_path(user_path));
  Path base = TRY(base_of(task, dirfd, path));
  TRY(make_node(task, base, path, mode, dev));
  return 0;
}

Result<int64_t> sys_mknod(Task& task, UserPath path, uint32_t mode, uint32_t dev) {
  return sys_mknodat(task, AT_FDCWD, path, mode, dev);
}

Result<int64_t> sys_unlink(Task& task, UserPath path) { return do_unlink(task, AT_FDCWD, path, 0); }
Result<int64_t> sys_rmdir(Task& task, UserPath path) {
  return do_unlink(task, AT_FDCWD, path, AT_REMOVEDIR);
}

Result<int64_t> sys_unlinkat(Task& task, int dirfd, UserPath path, int flags) {
  if (flags & ~AT_REMOVEDIR) return Err(EINVAL);
  return do_unlink(task, dirfd, path, flags);
}

Result<int64_t> sys_symlinkat(Task& task, UserPath target, int newdirfd, UserPath linkpath) {
  std::string text = TRY(task.copy_in_path(target));
  std::string path = TRY(task.copy_in_path(linkpath));
  Path base = TRY(base_of(task, newdirfd, path));
  TRY(make_symlink(task, text, base, path));
  return 0;
}

Result<int64_t> sys_symlink(Task& task, UserPath target, UserPath linkpath) {
  return sys_symlinkat(task, target, AT_FDCWD, linkpath);
}

Result<int64_t> sys_link(Task& task, UserPath oldpath, UserPath newpath) {
  return do_link(task, AT_FDCWD, oldpath, AT_FDCWD, newpath, 0);
}

Result<int64_t> sys_linkat(Task& task, int olddirfd, UserPath oldpath, int newdirfd,
                           UserPath newpath, int flags) {
  return do_link(task, olddirfd, oldpath, newdirfd, newpath, flags);
}

Result<int64_t> sys_rename(Task& task, UserPath oldpath, UserPath newpath) {
  return do_rename(task, AT_FDCWD, oldpath, AT_FDCWD, newpath, 0);
}

Result<int64_t> sys_renameat(Task& task, int olddirfd, UserPath oldpath, int newdirfd,
                             UserPath newpath) {
  return do_rename(task, olddirfd, oldpath, newdirfd, newpath, 0);
}

Result<int64_t> sys_renameat2(Task& task, int olddirfd, UserPath oldpath, int newdirfd,
                              UserPath newpath, uint32_t flags) {
  return do_rename(task, olddirfd, oldpath, newdirfd, newpath, flags);
}

Result<int64_t> sys_readlink(Task& task, UserPath path, UserOut buf, int size) {
  return do_readlink(task, AT_FDCWD, path, buf, size);
}

Result<int64_t> sys_readlinkat(Task& task, int dirfd, UserPath path, UserOut buf, int size) {
  return do_readlink(task, dirfd, path, buf, size);
}

}  // namespace uks
