// timerfd_create, timerfd_settime, timerfd_gettime.
#include <sys/timerfd.h>
#include <time.h>

#include "gen/syscalls.h"
#include "sentry/fs/timerfd/timerfd.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"
#include "sentry/vfs/anon.h"
#include "sentry/vfs/fd_table.h"

namespace uks {
namespace {

Result<Ref<TimerFd>> get_timer(Task& task, int fd) {
  auto file = TRY(task.fds().get_io(fd));
  if (file->kind() != FileKind::kTimerFd) return Err(EINVAL);
  return ref_cast<TimerFd>(file);
}

itimerspec current(TimerFd& timer) {
  const int64_t left = timer.remaining();
  return {.it_interval = to_timespec(timer.interval()), .it_value = to_timespec(left)};
}

}  // namespace

Result<int64_t> sys_timerfd_create(Task& task, int clockid, int flags) {
  if (flags & ~(TFD_CLOEXEC | TFD_NONBLOCK)) return Err(EINVAL);
  if (clockid == CLOCK_REALTIME_ALARM || clockid == CLOCK_BOOTTIME_ALARM) return Err(EPERM);
  if (clockid != CLOCK_REALTIME && clockid != CLOCK_MONOTONIC && clockid != CLOCK_BOOTTIME)
    return Err(EINVAL);
  auto file = make_ref<TimerFd>(task.kernel().timers, clockid, O_RDWR | (flags & TFD_NONBLOCK),
                                make_anon_inode(task, 0600));
  return task.fds().install(task, std::move(file), flags & TFD_CLOEXEC);
}

Result<int64_t> sys_timerfd_settime(Task& task, int fd, int flags, UserIn value,
                                    UserOut old_value) {
  const auto wanted = TRY(task.copy_in<itimerspec>(value));
  // The host's clock is not watched for jumps: CANCEL_ON_SET never cancels.
  if (flags & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET)) return Err(EINVAL);
  if (!is_valid(wanted.it_value) || !is_valid(wanted.it_interval)) return Err(EINVAL);
  auto timer = TRY(get_timer(task, fd));
  const itimerspec old = current(*timer);
  timer->set(to_ns(wanted.it_value), to_ns(wanted.it_interval), flags & TFD_TIMER_ABSTIME);
  if (old_value) TRY(task.copy_out(old_value, old));
  return 0;
}

Result<int64_t> sys_timerfd_gettime(Task& task, int fd, UserOut value) {
  auto timer = TRY(get_timer(task, fd));
  TRY(task.copy_out(value, current(*timer)));
  return 0;
}

}  // namespace uks
