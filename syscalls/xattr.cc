// Extended attributes.
#include <linux/capability.h>
#include <linux/limits.h>
#include <sys/xattr.h>

#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/notify.h"
#include "sentry/vfs/ops.h"
#include "sentry/vfs/permissions.h"

namespace uks {
namespace {

Result<std::string> name_in(Task& task, UserStr user_name) {
  auto name = task.copy_in_string(user_name, XATTR_NAME_MAX + 1);
  if (!name) return Err(name.error() == ENAMETOOLONG ? ERANGE : name.error().value);
  if (name->empty()) return Err(ERANGE);
  return name;
}

// xattr_permission() of fs/xattr.c: which names exist here, and for whom.
Result<void> may_use(Task& task, const Attr& attr, std::string_view name, bool write) {
  if (name.starts_with("user.") && name.size() > 5) {
    if (!attr.is_regular() && !attr.is_dir()) return Err(write ? EPERM : ENODATA);
    if (attr.is_dir() && (attr.mode & S_ISVTX) && write && !is_owner_or_capable(task.creds(), attr))
      return Err(EPERM);
    return check_access(task.creds(), attr, write ? kMayWrite : kMayRead);
  }
  if (name.starts_with("trusted.") && name.size() > 8) {
    if (!task.creds().has_cap(CAP_SYS_ADMIN)) return Err(write ? EPERM : ENODATA);
    return {};
  }
  // Labels, capabilities and ACLs would need an enforcer: this kernel has none.
  if (name.starts_with("security.") && !write) return Err(ENODATA);
  return Err(EOPNOTSUPP);
}

Result<Path> place_by_path(Task& task, UserPath path, bool follow) {
  return resolve_at(task, AT_FDCWD, path, follow ? kFollowLast : 0);
}

Result<Path> place_by_fd(Task& task, int fd) {
  Ref<File> file = TRY(task.fds().get_io(fd));
  Path place = place_of(*file);
  if (!place) return Err(EBADF);
  return place;
}

Result<int64_t> do_set(Task& task, const Path& place, UserStr user_name, UserIn value,
                       uint64_t size, int flags) {
  if (flags & ~(XATTR_CREATE | XATTR_REPLACE)) return Err(EINVAL);
  std::string name = TRY(name_in(task, user_name));
  if (size > XATTR_SIZE_MAX) return Err(E2BIG);
  std::string data(size, '\0');
  if (size) TRY(task.copy_in(value, data.data(), size));
  TRY(want_write(place));
  Ref<Inode> inode = place.dentry->inode_ref();
  TRY(may_use(task, TRY(inode->getattr()), name, true));
  TRY(inode->setxattr(name, data, flags));
  notify::place(place, IN_ATTRIB);
  return 0;
}

Result<int64_t> do_get(Task& task, const Path& place, UserStr user_name, UserOut value,
                       uint64_t size) {
  std::string name = TRY(name_in(task, user_name));
  Ref<Inode> inode = place.dentry->inode_ref();
  TRY(may_use(task, TRY(inode->getattr()), name, false));
  std::string data = TRY(inode->getxattr(name));
  if (size == 0) return static_cast<int64_t>(data.size());
  if (data.size() > size) return Err(ERANGE);
  TRY(task.copy_out(value, data.data(), data.size()));
  return static_cast<int64_t>(data.size());
}

Result<int64_t> do_list(Task& task, const Path& place, UserOut list, uint64_t size) {
  Ref<Inode> inode = place.dentry->inode_ref();
  auto names = TRY(inode->listxattr());
  std::string out;
  for (const std::string& name : names) {
    if (name.starts_with("trusted.") && !task.creds().has_cap(CAP_SYS_ADMIN)) continue;
    out += name;
    out += '\0';
  }
  if (size == 0) return static_cast<int64_t>(out.size());
  if (out.size() > size) return Err(ERANGE);
  TRY(task.copy_out(list, out.data(), out.size()));
  return static_cast<int64_t>(out.size());
}

Result<int64_t> do_remove(Task& task, const Path& place, UserStr user_name) {
  std::string name = TRY(name_in(task, user_name));
  TRY(want_write(place));
  Ref<Inode> inode = place.dentry->inode_ref();
  TRY(may_use(task, TRY(inode->getattr()), name, true));
  TRY(inode->removexattr(name));
  notify::place(place, IN_ATTRIB);
  return 0;
}

}  // namespace

Result<int64_t> sys_setxattr(Task& task, UserPath path, UserStr name, UserIn value, uint64_t size,
                             int flags) {
  return do_set(task, TRY(place_by_path(task, path, true)), name, value, size, flags);
}
Result<int64_t> sys_lsetxattr(Task& task, UserPath path, UserStr name, UserIn value, uint64_t size,
                              int flags) {
  return do_set(task, TRY(place_by_path(task, path, false)), name, value, size, flags);
}
Result<int64_t> sys_fsetxattr(Task& task, int fd, UserStr name, UserIn value, uint64_t size,
                              int flags) {
  return do_set(task, TRY(place_by_fd(task, fd)), name, value, size, flags);
}
Result<int64_t> sys_getxattr(Task& task, UserPath path, UserStr name, UserOut value,
                             uint64_t size) {
  return do_get(task, TRY(place_by_path(task, path, true)), name, value, size);
}
Result<int64_t> sys_lgetxattr(Task& task, UserPath path, UserStr name, UserOut value,
                              uint64_t size) {
  return do_get(task, TRY(place_by_path(task, path, false)), name, value, size);
}
Result<int64_t> sys_fgetxattr(Task& task, int fd, UserStr name, UserOut value, uint64_t size) {
  return do_get(task, TRY(place_by_fd(task, fd)), name, value, size);
}
Result<int64_t> sys_listxattr(Task& task, UserPath path, UserOut list, uint64_t size) {
  return do_list(task, TRY(place_by_path(task, path, true)), list, size);
}
Result<int64_t> sys_llistxattr(Task& task, UserPath path, UserOut list, uint64_t size) {
  return do_list(task, TRY(place_by_path(task, path, false)), list, size);
}
Result<int64_t> sys_flistxattr(Task& task, int fd, UserOut list, uint64_t size) {
  return do_list(task, TRY(place_by_fd(task, fd)), list, size);
}
Result<int64_t> sys_removexattr(Task& task, UserPath path, UserStr name) {
  return do_remove(task, TRY(place_by_path(task, path, true)), name);
}
Result<int64_t> sys_lremovexattr(Task& task, UserPath path, UserStr name) {
  return do_remove(task, TRY(place_by_path(task, path, false)), name);
}
Result<int64_t> sys_fremovexattr(Task& task, int fd, UserStr name) {
  return do_remove(task, TRY(place_by_fd(task, fd)), name);
}

}  // namespace uks
