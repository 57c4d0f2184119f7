// memfd_create.
#include <sys/mman.h>

#include "gen/syscalls.h"
#include "sentry/fs/memfd/memfd.h"
#include "sentry/task/task.h"
#include "sentry/vfs/fd_table.h"

namespace uks {

Result<int64_t> sys_memfd_create(Task& task, UserStr name, uint32_t flags) {
  auto text = task.copy_in_string(name, 250);
  if (!text) return Err(text.error() == ENAMETOOLONG ? Errno{EINVAL} : text.error());
  auto file = TRY(make_memfd(task, *text, flags));
  return task.fds().install(task, std::move(file), flags & MFD_CLOEXEC);
}

}  // namespace uks
