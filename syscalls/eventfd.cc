// eventfd and eventfd2.
#include <sys/eventfd.h>

#include "gen/syscalls.h"
#include "sentry/fs/eventfd/eventfd.h"
#include "sentry/task/task.h"
#include "sentry/vfs/anon.h"
#include "sentry/vfs/fd_table.h"

namespace uks {

Result<int64_t> sys_eventfd2(Task& task, uint32_t count, int flags) {
  if (flags & ~(EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK)) return Err(EINVAL);
  auto file = make_ref<EventFd>(O_RDWR | (flags & EFD_NONBLOCK), count, flags & EFD_SEMAPHORE,
                                make_anon_inode(task, 0600));
  return task.fds().install(task, std::move(file), flags & EFD_CLOEXEC);
}

Result<int64_t> sys_eventfd(Task& task, uint32_t count) { return sys_eventfd2(task, count, 0); }

}  // namespace uks
