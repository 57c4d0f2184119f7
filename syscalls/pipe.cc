// pipe and pipe2.
#include "sentry/fs/pipe/pipe.h"

#include "gen/syscalls.h"
#include "sentry/task/task.h"
#include "sentry/vfs/fd_table.h"

namespace uks {
namespace {

Result<int64_t> new_pipe(Task& task, UserAddr fds, int flags) {
  if (flags & ~(O_CLOEXEC | O_NONBLOCK | O_DIRECT | O_EXCL)) return Err(EINVAL);
  if (flags & O_EXCL) return Err(ENOPKG);  // O_NOTIFICATION_PIPE: no watch queues
  auto [reader, writer] = TRY(make_pipe(task, flags));
  const bool cloexec = flags & O_CLOEXEC;
  const int in = TRY(task.fds().install(task, std::move(reader), cloexec));
  auto out = task.fds().install(task, std::move(writer), cloexec);
  Result<void> done;
  if (out) {
    const int pair[2] = {in, *out};
    done = task.write_now(fds, pair, sizeof pair);
    if (done) return 0;
    (void)task.fds().close(task, *out);
  }
  (void)task.fds().close(task, in);
  return Err(out ? done.error() : out.error());
}

}  // namespace

Result<int64_t> sys_pipe(Task& task, UserOut fds) { return new_pipe(task, fds, 0); }
Result<int64_t> sys_pipe2(Task& task, UserOut fds, int flags) { return new_pipe(task, fds, flags); }

}  // namespace uks
