// statfs, fstatfs.
#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/resolve.h"

namespace uks {
namespace {

Result<int64_t> put(Task& task, Inode& node, const Mount* mount, UserOut buf) {
  Ref<Inode> inode(&node);
  struct statfs s = TRY(inode->statfs());
  static_assert(sizeof s == 120);
  // ST_VALID and the mount's own flags, whose bits are those of MS_* (include/linux/statfs.h).
  s.f_flags = 0x20 | (mount ? static_cast<long>(mount->flags() & 0xf) : 0);
  TRY(task.copy_out(buf, s));
  return 0;
}

}  // namespace

Result<int64_t> sys_statfs(Task& task, UserPath path, UserOut buf) {
  Path place = TRY(resolve_at(task, AT_FDCWD, path, kFollowLast));
  return put(task, *place.inode(), place.mount.get(), buf);
}

Result<int64_t> sys_fstatfs(Task& task, int fd, UserOut buf) {
  Ref<File> file = TRY(task.fds().get(fd));
  if (!file->inode()) return Err(EBADF);
  Ref<Mount> mount = file->path().mount;
  return put(task, *file->inode(), mount.get(), buf);
}

}  // namespace uks
