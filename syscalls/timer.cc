// timer_create and its family.
#include <signal.h>
#include <time.h>

#include "gen/syscalls.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"
#include "sentry/time/group_timers.h"

namespace uks {
namespace {

// The kernel's struct sigevent, of which only the head has meaning here.
struct GuestSigevent {
  uint64_t value;
  int32_t signo;
  int32_t notify;
  int32_t tid;
  int32_t pad[11];
};
static_assert(sizeof(GuestSigevent) == 64);

itimerspec current(const PosixTimer& timer) {
  return {.it_interval = to_timespec(timer.interval()), .it_value = to_timespec(timer.remaining())};
}

}  // namespace

Result<int64_t> sys_timer_create(Task& task, int clockid, UserIn event, UserOut timer_id) {
  if (!is_known_clock(clockid)) return Err(EINVAL);
  if (!is_wall_clock(clockid) && !is_cpu_clock(clockid)) return Err(EOPNOTSUPP);
  std::optional<PosixTimer::Event> wanted;
  if (event) {
    const auto e = TRY(task.copy_in<GuestSigevent>(event));
    switch (e.notify) {
      case SIGEV_NONE:
        break;
      case SIGEV_SIGNAL | SIGEV_THREAD_ID: {
        Task* target = task.kernel().find_task(e.tid);
        if (!target || target->tgid() != task.tgid()) return Err(EINVAL);
        [[fallthrough]];
      }
      case SIGEV_SIGNAL:
      case SIGEV_THREAD:  // for the kernel it is SIGEV_SIGNAL
        if (e.signo < 1 || e.signo > kSignalCount) return Err(EINVAL);
        break;
      default:
        return Err(EINVAL);
    }
    wanted =
        PosixTimer::Event{.notify = e.notify, .signo = e.signo, .value = e.value, .tid = e.tid};
  }
  if (clockid == CLOCK_REALTIME_ALARM || clockid == CLOCK_BOOTTIME_ALARM) return Err(EPERM);
  std::optional<CpuClock> cpu;
  if (is_cpu_clock(clockid)) {
    cpu = TRY(find_cpu_clock(task, clockid));
    // The host does not tell the time of one thread of several: the unsupported kind here, as
    // MONOTONIC_RAW is on Linux.
    if (cpu->thread && cpu->group->threads.size() > 1) return Err(EOPNOTSUPP);
  }
  auto& timers = GroupTimers::of(task.group());
  const int id = TRY(timers.create(task, clockid, cpu, wanted));
  if (auto r = task.copy_out(timer_id, id); !r) {
    if (!task.dead) (void)timers.remove(id);
    return Err(r.error());
  }
  return 0;
}

Result<int64_t> sys_timer_settime(Task& task, int timer_id, int flags, UserIn value,
                                  UserOut old_value) {
  const auto wanted = TRY(task.copy_in<itimerspec>(value));
  if (!is_valid(wanted.it_value) || !is_valid(wanted.it_interval)) return Err(EINVAL);
  PosixTimer* timer = TRY(GroupTimers::of(task.group()).find(timer_id));
  const itimerspec old = current(*timer);
  timer->set(to_ns(wanted.it_value), to_ns(wanted.it_interval), flags & TIMER_ABSTIME);
  if (old_value) TRY(task.copy_out(old_value, old));
  return 0;
}

Result<int64_t> sys_timer_gettime(Task& task, int timer_id, UserOut value) {
  PosixTimer* timer = TRY(GroupTimers::of(task.group()).find(timer_id));
  TRY(task.copy_out(value, current(*timer)));
  return 0;
}

Result<int64_t> sys_timer_getoverrun(Task& task, int timer_id) {
  return TRY(GroupTimers::of(task.group()).find(timer_id))->overrun();
}

Result<int64_t> sys_timer_delete(Task& task, int timer_id) {
  TRY(GroupTimers::of(task.group()).remove(timer_id));
  return 0;
}

}  // namespace uks
