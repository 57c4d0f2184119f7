#include "sentry/fs/pidfd/pidfd.h"

#include <fmt/format.h>

#include "sentry/vfs/anon.h"
#include "sentry/vfs/fd_table.h"

namespace uks {

std::string PidFd::fdinfo() const {
  const int pid = group_->parent ? group_->pid : -1;  // -1: reaped
  return fmt::format("Pid:\t{}\nNSpid:\t{}\n", pid, pid);
}

Result<int> install_pidfd(Task& task, ThreadGroup& group, int flags) {
  auto file =
      make_ref<PidFd>(O_RDWR | flags, Ref<ThreadGroup>(&group), make_anon_inode(task, 0600));
  return task.fds().install(task, std::move(file), true);
}

Result<Ref<ThreadGroup>> group_of_pidfd(Task& task, int fd) {
  const Ref<File> file = TRY(task.fds().get_io(fd));
  if (file->kind() != FileKind::kPidFd) return Err(EBADF);
  return Ref<ThreadGroup>(&static_cast<PidFd&>(*file).group());
}

}  // namespace uks
