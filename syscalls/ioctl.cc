// ioctl: what holds for every file, then the file's own.
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"

namespace uks {

Result<int64_t> sys_ioctl(Task& task, int fd, uint32_t request, uint64_t arg) {
  Ref<File> file = TRY(task.call_file(fd));
  UserAddr at{arg};
  switch (request) {
    case FIOCLEX:
      TRY(task.fds().set_cloexec(fd, true));
      return 0;
    case FIONCLEX:
      TRY(task.fds().set_cloexec(fd, false));
      return 0;
    case FIONBIO:
    case FIOASYNC: {
      int flag = request == FIONBIO ? O_NONBLOCK : O_ASYNC;
      int on = TRY(task.copy_in<int>(at));
      file->set_status_flags(on ? file->flags() | flag : file->flags() & ~flag);
      return 0;
    }
    default:
      break;
  }
  Inode* inode = file->inode();
  bool regular = inode && inode->is_regular(), dir = inode && inode->is_dir();
  if (regular && request == FIONREAD) {
    int64_t left = static_cast<int64_t>(TRY(inode->getattr()).size) - file->pos;
    TRY(task.copy_out(at, static_cast<int>(std::clamp<int64_t>(left, INT32_MIN, INT32_MAX))));
    return 0;
  }
  if (request == FIOQSIZE && (regular || dir)) {
    TRY(task.copy_out(at, static_cast<int64_t>(TRY(inode->getattr()).size)));
    return 0;
  }
  if (regular || dir) {
    // Programs fall back only on the errnos that file systems without the feature give.
    switch (request) {
      case FICLONE:
      case FICLONERANGE:
      case FIDEDUPERANGE:
        return Err(EOPNOTSUPP);
      case FIGETBSZ:
        TRY(task.copy_out(at, static_cast<int>(TRY(inode->getattr()).blksize)));
        return 0;
      default:
        break;
    }
  }
  return file->ioctl(task, request, arg);
}

}  // namespace uks
