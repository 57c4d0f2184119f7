// fsync, fdatasync, sync, syncfs, sync_file_range.
#include <fcntl.h>

#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"

namespace uks {

Result<int64_t> sys_fsync(Task& task, int fd) {
  Ref<File> file = TRY(task.fds().get_io(fd));
  TRY(file->sync(task, false));
  return 0;
}

Result<int64_t> sys_fdatasync(Task& task, int fd) {
  Ref<File> file = TRY(task.fds().get_io(fd));
  TRY(file->sync(task, true));
  return 0;
}

Result<int64_t> sys_sync(Task& task) {
  Ref<MountNamespace> mounts = task.fs().mounts;
  for (size_t i = 0; i < mounts->mounts().size(); ++i) {
    Ref<Mount> m = mounts->mounts()[i];
    (void)m->fs().sync();
  }
  return 0;
}

Result<int64_t> sys_syncfs(Task& task, int fd) {
  Ref<File> file = TRY(task.fds().get_io(fd));
  Ref<Inode> inode(file->inode());
  if (inode) TRY(inode->fs().sync());
  return 0;
}

Result<int64_t> sys_sync_file_range(Task& task, int fd, int64_t offset, int64_t nbytes,
                                    uint32_t flags) {
  Ref<File> file = TRY(task.fds().get_io(fd));
  if (flags & ~(SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER))
    return Err(EINVAL);
  int64_t end;
  if (offset < 0 || nbytes < 0 || __builtin_add_overflow(offset, nbytes, &end)) return Err(EINVAL);
  Inode* inode = file->inode();
  if (!inode ||
      (!inode->is_regular() && !inode->is_dir() && !inode->is_link() && inode->type() != S_IFBLK))
    return Err(ESPIPE);
  // A hint about when to write back; only the waiting flags promise anything, and less than
  // fdatasync.
  if (flags & (SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER))
    TRY(file->sync(task, true));
  return 0;
}

}  // namespace uks
