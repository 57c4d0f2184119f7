// Scheduling: the host schedules; what a guest sets is kept and shown to it.
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "gen/syscalls.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"

namespace uks {
namespace {

constexpr int kCapSysNice = 23;
constexpr int kIdle = 5;      // SCHED_IDLE
constexpr int kDeadline = 6;  // SCHED_DEADLINE

Result<Task*> find(Task& task, int pid) {
  if (pid < 0) return Err(EINVAL);
  Task* target = pid == 0 ? &task : task.kernel().find_task(pid);
  if (!target) return Err(ESRCH);
  return target;
}

bool may_change(Task& task, Task& target) {
  const Credentials& c = task.creds();
  return c.has_cap(kCapSysNice) || c.euid == target.creds().euid || c.euid == target.creds().ruid;
}

bool is_fair(int policy) {
  return policy == SCHED_OTHER || policy == SCHED_BATCH || policy == kIdle;
}

Result<int64_t> set_policy(Task& task, int pid, int policy, int priority) {
  Task* target = TRY(find(task, pid));
  policy &= ~SCHED_RESET_ON_FORK;
  if (policy == SCHED_FIFO || policy == SCHED_RR) {
    if (priority < 1 || priority > 99) return Err(EINVAL);
    return Err(EPERM);  // real-time scheduling stays the host's
  }
  if (policy == kDeadline) return Err(EPERM);
  if (!is_fair(policy) || priority != 0) return Err(EINVAL);
  if (!may_change(task, *target)) return Err(EPERM);
  target->sched_policy = policy;
  return 0;
}

// The kernel's struct sched_attr, first version.
struct SchedAttr {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};
static_assert(sizeof(SchedAttr) == 48);

// Calls `f` for every task that (which, who) of getpriority(2) names.
template <typename F>
Result<void> for_each(Task& task, int which, int who, F f) {
  Kernel& kernel = task.kernel();
  bool found = false;
  const auto visit = [&](Task& t) {
    found = true;
    f(t);
  };
  switch (which) {
    case PRIO_PROCESS:
      if (Task* t = who == 0 ? &task : kernel.find_task(who)) visit(*t);
      break;
    case PRIO_PGRP:
    case PRIO_USER:
      for (const auto& [pid, group] : kernel.groups()) {
        for (Task* t : group->threads) {
          const bool match =
              which == PRIO_PGRP
                  ? group->pgid == (who == 0 ? task.group().pgid : who)
                  : t->creds().ruid == (who == 0 ? task.creds().ruid : static_cast<uid_t>(who));
          if (match) visit(*t);
        }
      }
      break;
    default:
      return Err(EINVAL);
  }
  if (!found) return Err(ESRCH);
  return {};
}

unsigned cpu_count(Task& task) { return std::max(1u, task.kernel().cpu_count); }

// As the kernel's masks: whole words, enough for all CPUs.
size_t mask_words(Task& task) { return (cpu_count(task) + 63) / 64; }

}  // namespace

Result<int64_t> sys_sched_yield(Task&) { return 0; }

Result<int64_t> sys_sched_getscheduler(Task& task, int pid) {
  return TRY(find(task, pid))->sched_policy;
}

Result<int64_t> sys_sched_setscheduler(Task& task, int pid, int policy, UserIn param) {
  if (policy < 0 || !param) return Err(EINVAL);
  return set_policy(task, pid, policy, TRY(task.copy_in<int32_t>(param)));
}

Result<int64_t> sys_sched_getparam(Task& task, int pid, UserOut param) {
  if (!param) return Err(EINVAL);
  TRY(find(task, pid));
  TRY(task.copy_out(param, int32_t{0}));
  return 0;
}

Result<int64_t> sys_sched_setparam(Task& task, int pid, UserIn param) {
  if (!param) return Err(EINVAL);
  TRY(find(task, pid));
  if (TRY(task.copy_in<int32_t>(param)) != 0) return Err(EINVAL);
  Task* target = TRY(find(task, pid));
  return may_change(task, *target) ? Result<int64_t>(0) : Err(EPERM);
}

Result<int64_t> sys_sched_setattr(Task& task, int pid, UserIn attr, uint32_t flags) {
  if (!attr || flags) return Err(EINVAL);
  const auto a = TRY(task.copy_in<SchedAttr>(attr));
  if (a.size != 0 && a.size < sizeof(SchedAttr)) return Err(EINVAL);
  if (a.policy > INT32_MAX) return Err(EINVAL);
  TRY(set_policy(task, pid, static_cast<int>(a.policy), static_cast<int>(a.priority)));
  TRY(find(task, pid))->nice = std::clamp(a.nice, -20, 19);
  return 0;
}

Result<int64_t> sys_sched_getattr(Task& task, int pid, UserOut attr, uint32_t size,
                                  uint32_t flags) {
  if (!attr || flags || size < sizeof(SchedAttr) || size > 4096) return Err(EINVAL);
  Task* target = TRY(find(task, pid));
  const SchedAttr a{.size = sizeof(SchedAttr),
                    .policy = static_cast<uint32_t>(target->sched_policy),
                    .flags = 0,
                    .nice = target->nice,
                    .priority = 0,
                    .runtime = 0,
                    .deadline = 0,
                    .period = 0};
  TRY(task.copy_out(attr, a));
  return 0;
}

Result<int64_t> sys_sched_get_priority_max(Task&, int policy) {
  if (policy == SCHED_FIFO || policy == SCHED_RR) return 99;
  return is_fair(policy) || policy == kDeadline ? Result<int64_t>(0) : Err(EINVAL);
}

Result<int64_t> sys_sched_get_priority_min(Task&, int policy) {
  if (policy == SCHED_FIFO || policy == SCHED_RR) return 1;
  return is_fair(policy) || policy == kDeadline ? Result<int64_t>(0) : Err(EINVAL);
}

Result<int64_t> sys_sched_rr_get_interval(Task& task, int pid, UserOut interval) {
  TRY(find(task, pid));
  constexpr int64_t kSlice = 4'000'000;  // a fair task's slice, as CONFIG_HZ=250 kernels show it
  TRY(task.copy_out(interval, to_timespec(kSlice)));
  return 0;
}

Result<int64_t> sys_sched_getaffinity(Task& task, int pid, uint32_t length, UserOut mask) {
  if (length * 8 < cpu_count(task) || length % sizeof(uint64_t) != 0) return Err(EINVAL);
  Task* target = TRY(find(task, pid));
  std::vector<uint64_t> words(mask_words(task));
  for (unsigned cpu = 0; cpu < cpu_count(task); cpu++) words[cpu / 64] |= uint64_t{1} << (cpu % 64);
  for (size_t i = 0; i < std::min(words.size(), target->affinity.size()); i++)
    words[i] &= target->affinity[i];
  const size_t n = std::min<size_t>(length, words.size() * sizeof(uint64_t));
  TRY(task.copy_out(mask, words.data(), n));
  return static_cast<int64_t>(n);
}

Result<int64_t> sys_sched_setaffinity(Task& task, int pid, uint32_t length, UserIn mask) {
  std::vector<uint64_t> words(mask_words(task));
  TRY(task.copy_in(mask, words.data(), std::min<size_t>(length, words.size() * sizeof(uint64_t))));
  Task* target = TRY(find(task, pid));
  if (!may_change(task, *target)) return Err(EPERM);
  bool any = false;
  for (unsigned cpu = 0; cpu < cpu_count(task); cpu++) any |= words[cpu / 64] >> (cpu % 64) & 1;
  if (!any) return Err(EINVAL);
  target->affinity = std::move(words);
  return 0;
}

Result<int64_t> sys_getcpu(Task& task, UserOut cpu, UserOut node, UserAddr) {
  // Of the CPU that serves the call, which is the caller's own as a rule; within what the guest may
  // see.
  const int host = sched_getcpu();
  const uint32_t number = host < 0 ? 0 : static_cast<uint32_t>(host) % cpu_count(task);
  if (cpu) TRY(task.copy_out(cpu, number));
  if (node) TRY(task.copy_out(node, uint32_t{0}));
  return 0;
}

Result<int64_t> sys_getpriority(Task& task, int which, int who) {
  int best = 0;
  // 20 - nice, so that no answer looks like an error.
  TRY(for_each(task, which, who, [&](Task& t) { best = std::max(best, 20 - t.nice); }));
  return best;
}

Result<int64_t> sys_setpriority(Task& task, int which, int who, int value) {
  const int nice = std::clamp(value, -20, 19);
  Result<void> outcome;
  const int lowest =
      20 - static_cast<int>(std::min<uint64_t>(task.group().limits[RLIMIT_NICE].rlim_cur, 40));
  TRY(for_each(task, which, who, [&](Task& t) {
    if (!may_change(task, t)) {
      outcome = Err(EPERM);
    } else if (nice < t.nice && nice < lowest && !task.creds().has_cap(kCapSysNice)) {
      outcome = Err(EACCES);
    } else {
      t.nice = nice;
    }
  }));
  if (!outcome) return Err(outcome.error());
  return 0;
}

Result<int64_t> sys_ioprio_get(Task& task, int which, int who) {
  // IOPRIO_WHO_* are PRIO_* plus one.
  int priority = 0;
  TRY(for_each(task, which - 1, who, [&](Task& t) { priority = t.io_priority; }));
  return priority;
}

Result<int64_t> sys_ioprio_set(Task& task, int which, int who, int ioprio) {
  const int io_class = ioprio >> 13;
  if (io_class < 0 || io_class > 3 || (ioprio & 0x1fff) > 7) return Err(EINVAL);
  if (io_class == 1) return Err(EPERM);  // real time
  if (io_class == 0 && (ioprio & 0x1fff)) return Err(EINVAL);
  Result<void> outcome;
  TRY(for_each(task, which - 1, who, [&](Task& t) {
    if (may_change(task, t)) {
      t.io_priority = ioprio;
    } else {
      outcome = Err(EPERM);
    }
  }));
  if (!outcome) return Err(outcome.error());
  return 0;
}

}  // namespace uks
