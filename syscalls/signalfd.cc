// signalfd and signalfd4.
#include <sys/signalfd.h>

#include "gen/syscalls.h"
#include "sentry/fs/signalfd/signalfd.h"
#include "sentry/task/task.h"
#include "sentry/vfs/anon.h"
#include "sentry/vfs/fd_table.h"

namespace uks {

Result<int64_t> sys_signalfd4(Task& task, int fd, UserIn mask, uint64_t sizemask, int flags) {
  if (sizemask != sizeof(SignalMask)) return Err(EINVAL);
  const auto signals = TRY(task.copy_in<SignalMask>(mask));
  if (flags & ~(SFD_CLOEXEC | SFD_NONBLOCK)) return Err(EINVAL);
  if (fd == -1) {
    auto file =
        make_ref<SignalFd>(signals, O_RDWR | (flags & SFD_NONBLOCK), make_anon_inode(task, 0600));
    return task.fds().install(task, std::move(file), flags & SFD_CLOEXEC);
  }
  auto file = TRY(task.fds().get_io(fd));
  if (file->kind() != FileKind::kSignalFd) return Err(EINVAL);
  static_cast<SignalFd&>(*file).set_mask(task, signals);
  return fd;
}

Result<int64_t> sys_signalfd(Task& task, int fd, UserIn mask, uint64_t sizemask) {
  return sys_signalfd4(task, fd, mask, sizemask, 0);
}

}  // namespace uks
