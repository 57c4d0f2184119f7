// fadvise64, readahead: hints; the host reads ahead by itself.
#include <fcntl.h>

#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"

namespace uks {

Result<int64_t> sys_fadvise64(Task& task, int fd, int64_t offset, uint64_t length, int advice) {
  (void)offset;
  Ref<File> file = TRY(task.fds().get_io(fd));
  Inode* inode = file->inode();
  if (inode && inode->type() == S_IFIFO) return Err(ESPIPE);
  if (static_cast<int64_t>(length) < 0) return Err(EINVAL);
  if (advice < POSIX_FADV_NORMAL || advice > POSIX_FADV_NOREUSE) return Err(EINVAL);
  return 0;
}

Result<int64_t> sys_readahead(Task& task, int fd, int64_t offset, uint64_t count) {
  (void)offset;
  (void)count;
  Ref<File> file = TRY(task.fds().get_io(fd));
  if (!file->readable()) return Err(EBADF);
  if (!file->inode() || !file->inode()->is_regular()) return Err(EINVAL);
  return 0;
}

}  // namespace uks
