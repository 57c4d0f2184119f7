// Resource limits and usage.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "gen/syscalls.h"
#include "platform/platform.h"
#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"
#include "sentry/time/group_timers.h"

namespace uks {
namespace {

constexpr int kCapSysResource = 24;
// /proc/sys/fs/nr_open: nobody may have more descriptors.
constexpr uint64_t kMaxOpenFiles = 1 << 20;

Result<rlimit64> change(Task& task, ThreadGroup& group, uint32_t resource, const rlimit64* wanted) {
  if (resource >= RLIM_NLIMITS) return Err(EINVAL);
  rlimit64& limit = group.limits[resource];
  const rlimit64 old = limit;
  if (!wanted) return old;
  if (wanted->rlim_cur > wanted->rlim_max) return Err(EINVAL);
  // What was inherited may be more.
  if (resource == RLIMIT_NOFILE &&
      wanted->rlim_max > std::max<uint64_t>(kMaxOpenFiles, limit.rlim_max)) {
    return Err(EPERM);
  }
  if (wanted->rlim_max > limit.rlim_max && !task.creds().has_cap(kCapSysResource))
    return Err(EPERM);
  limit = *wanted;
  if (resource == RLIMIT_CPU) GroupTimers::of(group).watch_cpu_limit();
  return old;
}

// The largest resident set, in KiB, as the host counts it for the stub process. 0: the host does
// not tell.
int64_t max_rss_kib(Task& task) {
  const Ref<AddressSpace> mm = task.mm;
  if (!mm) return 0;
  Result<std::string> status = Err(ESRCH);
  {
    Unlocked unlocked;  // the keeper is asked
    status = read_host_proc(*mm, "status");
  }
  if (!status) return 0;
  const size_t at = status->find("VmHWM:");
  return at == std::string::npos ? 0 : strtol(status->c_str() + at + 6, nullptr, 10);
}

timeval to_timeval(uint64_t ns) {
  return {.tv_sec = static_cast<int64_t>(ns / 1'000'000'000),
          .tv_usec = static_cast<int64_t>(ns % 1'000'000'000 / 1000)};
}

// With RLIMIT_AS or RLIMIT_DATA set, private mappings are no longer made behind the sentry's back.
// (Set for another process it takes effect at that one's next execve.)
void tell_stub_of_limit(Task& task) {
  if (!task.thread) return;
  uks_order order{};
  order.op = UKS_ORDER_SET_LIMITED;
  order.addr = task.group().memory_limit() != RLIM64_INFINITY;
  order.length = task.group().memory_limit();
  task.thread->add_order(order);
}

}  // namespace

Result<int64_t> sys_getrlimit(Task& task, uint32_t resource, UserOut limit) {
  TRY(task.copy_out(limit, TRY(change(task, task.group(), resource, nullptr))));
  return 0;
}

Result<int64_t> sys_setrlimit(Task& task, uint32_t resource, UserIn limit) {
  const auto wanted = TRY(task.copy_in<rlimit64>(limit));
  TRY(change(task, task.group(), resource, &wanted));
  if (resource == RLIMIT_AS || resource == RLIMIT_DATA) tell_stub_of_limit(task);
  return 0;
}

Result<int64_t> sys_prlimit64(Task& task, int pid, uint32_t resource, UserIn new_limit,
                              UserOut old_limit) {
  rlimit64 wanted{};
  if (new_limit) wanted = TRY(task.copy_in<rlimit64>(new_limit));
  Task* target = pid == 0 ? &task : task.kernel().find_task(pid);
  if (!target) return Err(ESRCH);
  if (target->tgid() != task.tgid() && !task.creds().has_cap(kCapSysResource)) {
    const Credentials& a = task.creds();
    const Credentials& b = target->creds();
    const bool same = a.ruid == b.euid && a.ruid == b.suid && a.ruid == b.ruid &&
                      a.rgid == b.egid && a.rgid == b.sgid && a.rgid == b.rgid;
    if (!same) return Err(EPERM);
  }
  const auto old = TRY(change(task, target->group(), resource, new_limit ? &wanted : nullptr));
  if (new_limit && (resource == RLIMIT_AS || resource == RLIMIT_DATA) && target == &task)
    tell_stub_of_limit(task);
  if (old_limit) TRY(task.copy_out(old_limit, old));
  return 0;
}

Result<int64_t> sys_getrusage(Task& task, int who, UserOut usage) {
  struct rusage u{};
  switch (who) {
    case RUSAGE_SELF: {
      const CpuTimes t = task.kernel().cpu_times(task.group());
      u.ru_utime = to_timeval(t.user_ns);
      u.ru_stime = to_timeval(t.system_ns);
      u.ru_maxrss = max_rss_kib(task);
      break;
    }
    case RUSAGE_CHILDREN:
      u.ru_utime = to_timeval(task.group().children_user_ns);
      u.ru_stime = to_timeval(task.group().children_system_ns);
      break;
    case RUSAGE_THREAD: {
      const auto ns = task.kernel().task_cpu_ns(task);
      if (!ns) return Err(EINVAL);
      u.ru_utime = to_timeval(*ns);
      break;
    }
    default:
      return Err(EINVAL);
  }
  TRY(task.copy_out(usage, u));
  return 0;
}

}  // namespace uks
