// truncate, ftruncate, fallocate.
#include <linux/falloc.h>

#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/notify.h"
#include "sentry/vfs/ops.h"
#include "syscalls/file_io.h"

namespace uks {

Result<int64_t> sys_truncate(Task& task, UserPath path, int64_t length) {
  if (length < 0) return Err(EINVAL);
  Path place = TRY(resolve_at(task, AT_FDCWD, path, kFollowLast));
  TRY(truncate_place(task, place, length));
  return 0;
}

Result<int64_t> sys_ftruncate(Task& task, int fd, int64_t length) {
  if (length < 0) return Err(EINVAL);
  Ref<File> file = TRY(task.fds().get_io(fd));
  Inode* inode = file->inode();
  if (!inode || !inode->is_regular() || !file->writable()) return Err(EINVAL);
  if (length > 0) {
    // RLIMIT_FSIZE binds an extension only.
    uint64_t size = TRY(inode->getattr()).size;
    rlim64_t limit = task.group().limits[RLIMIT_FSIZE].rlim_cur;
    if (static_cast<uint64_t>(length) > size && static_cast<uint64_t>(length) > limit)
      TRY(apply_file_size_limit(task, *file, length, 1));
  }
  TRY(file->truncate(task, length));
  notify::file(*file, IN_MODIFY);
  return 0;
}

Result<int64_t> sys_fallocate(Task& task, int fd, int mode, int64_t offset, int64_t length) {
  if (offset < 0 || length <= 0) return Err(EINVAL);
  Ref<File> file = TRY(task.fds().get_io(fd));
  if (!file->writable()) return Err(EBADF);
  Inode* inode = file->inode();
  if (inode && inode->type() == S_IFIFO) return Err(ESPIPE);
  if (inode && inode->is_dir()) return Err(EISDIR);
  if (!inode || !inode->is_regular()) return Err(ENODEV);
  int64_t end;
  if (__builtin_add_overflow(offset, length, &end)) return Err(EFBIG);
  TRY(file->allocate(task, mode, offset, length));
  notify::file(*file, IN_MODIFY);
  return 0;
}

}  // namespace uks
