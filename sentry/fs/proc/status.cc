// stat, status, statm, io and limits of a process or thread.
#include <fmt/format.h>
#include <signal.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>

#include "platform/platform.h"
#include "sentry/fs/proc/proc_fs.h"
#include "sentry/fs/tty/tty.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"

namespace uks {
namespace {

constexpr uint64_t kNsPerTick = 10'000'000;  // USER_HZ is 100

// A text of the host about the stub process behind `target`; empty where there is none (any more).
std::string host_text(const ProcTarget& target, const char* name) {
  const Task* task = target.task();
  const Ref<AddressSpace> mm = task ? task->mm : Ref<AddressSpace>();
  if (!mm || mm->gone) return {};
  Unlocked unlocked;  // the keeper is asked
  return read_host_proc(*mm, name).value_or(std::string());
}

// The stub's region, which is reserved whole in every process and is none of the guest's.
uint64_t without_stub(uint64_t bytes) {
  return bytes > UKS_STUB_REGION ? bytes - UKS_STUB_REGION : bytes;
}

uint64_t number(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Fields 3… of a stat text: the name in field 2 may hold blanks and parentheses.
std::vector<std::string> stat_fields(const std::string& text) {
  std::vector<std::string> fields;
  size_t at = text.rfind(')');
  if (at == std::string::npos) return fields;
  for (++at; at < text.size();) {
    at = text.find_first_not_of(" \n", at);
    if (at == std::string::npos) break;
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    fields.push_back(text.substr(at, end - at));
    at = end;
  }
  return fields;
}

// Field `number` as proc(5) counts; "0" if the host told nothing.
std::string_view field(const std::vector<std::string>& fields, size_t number) {
  return number - 3 < fields.size() ? std::string_view(fields[number - 3]) : std::string_view("0");
}

char state_of(const ProcTarget& target) {
  const Task* task = target.task();
  if (target.group->zombie) return 'Z';
  if (!task) return 'S';  // process 1, which has no threads
  if (target.group->stopped) return 'T';
  if (task->waiting_for_vfork) return 'D';
  return task->is_blocked() ? 'S' : 'R';
}

const char* state_name(char state) {
  switch (state) {
    case 'Z':
      return "Z (zombie)";
    case 'T':
      return "T (stopped)";
    case 'D':
      return "D (disk sleep)";
    case 'S':
      return "S (sleeping)";
    default:
      return "R (running)";
  }
}

pid_t parent_of(const ProcTarget& t) { return t.group->parent ? t.group->parent->pid : 0; }

CpuTimes times_of(const ProcTarget& target) {
  Task* task = target.task();
  if (target.is_thread && task) {
    // Per thread only the sum is known, and not always: the rest is the process's.
    if (const auto ns = target.kernel().task_cpu_ns(*task)) return {.user_ns = *ns, .system_ns = 0};
    return {};
  }
  return target.kernel().cpu_times(*target.group);
}

// As new_encode_dev() packs a device number.
uint64_t encode_device(uint64_t device) {
  const unsigned major = gnu_dev_major(device), minor = gnu_dev_minor(device);
  return (minor & 0xff) | (uint64_t{major} << 8) | ((minor & ~0xffull) << 12);
}

struct SignalSets {
  SignalMask pending = 0, group_pending = 0, blocked = 0, ignored = 0, caught = 0;
};

SignalSets signals_of(const ProcTarget& target) {
  SignalSets sets;
  if (const Task* task = target.task()) {
    sets.pending = task->pending.pending();
    sets.blocked = task->blocked_signals;
  }
  sets.group_pending = target.group->pending.pending();
  if (target.group->actions && !target.group->zombie) {
    for (int sig = 1; sig <= kSignalCount; sig++) {
      const uint64_t handler = (*target.group->actions)[sig].handler;
      if (handler == 1) sets.ignored |= signal_bit(sig);
      if (handler > 1) sets.caught |= signal_bit(sig);
    }
  }
  return sets;
}

std::string limit_text(uint64_t value) {
  return value == RLIM64_INFINITY ? "unlimited" : std::to_string(value);
}

struct LimitName {
  int resource;
  const char* name;
  const char* unit;
};

// The order and wording of fs/proc/base.c.
constexpr LimitName kLimits[] = {
    {RLIMIT_CPU, "Max cpu time", "seconds"},
    {RLIMIT_FSIZE, "Max file size", "bytes"},
    {RLIMIT_DATA, "Max data size", "bytes"},
    {RLIMIT_STACK, "Max stack size", "bytes"},
    {RLIMIT_CORE, "Max core file size", "bytes"},
    {RLIMIT_RSS, "Max resident set", "bytes"},
    {RLIMIT_NPROC, "Max processes", "processes"},
    {RLIMIT_NOFILE, "Max open files", "files"},
    {RLIMIT_MEMLOCK, "Max locked memory", "bytes"},
    {RLIMIT_AS, "Max address space", "bytes"},
    {RLIMIT_LOCKS, "Max file locks", "locks"},
    {RLIMIT_SIGPENDING, "Max pending signals", "signals"},
    {RLIMIT_MSGQUEUE, "Max msgqueue size", "bytes"},
    {RLIMIT_NICE, "Max nice priority", ""},
    {RLIMIT_RTPRIO, "Max realtime priority", ""},
    {RLIMIT_RTTIME, "Max realtime timeout", "us"},
};

}  // namespace

Result<std::string> stat_text(const ProcTarget& target, Task& reader) {
  const std::vector<std::string> host = stat_fields(host_text(target, "stat"));
  if (!target.exists()) return Err(ESRCH);  // it ended while the host was asked
  const ThreadGroup& group = *target.group;
  Task* task = target.task();
  const CpuTimes cpu = times_of(target);
  const SignalSets signals = signals_of(target);
  const int nice = task ? task->nice : 0;
  const uint64_t terminal = group.session ? controlling_terminal_device(group) : 0;
  AddressSpace* mm = task ? task->mm.get() : nullptr;
  // Addresses are for those who may look at the memory as well.
  const bool shows_addresses = mm && may_inspect(reader, target);
  const auto address = [&](uint64_t AddressSpace::* which) {
    return shows_addresses ? mm->*which : 0;
  };

  std::string out =
      fmt::format("{} ({}) {} {} {} {} {} {}", target.tid, target.comm(), state_of(target),
                  parent_of(target), group.pgid, group.session ? group.session->id : 0,
                  static_cast<int32_t>(encode_device(terminal)),
                  terminal ? group.session->foreground_pgid : -1);
  // 9 flags, 10-13 faults.
  out += fmt::format(" 4194304 {} 0 {} 0", field(host, 10), field(host, 12));
  // 14-17 times.
  out += fmt::format(" {} {} {} {}", cpu.user_ns / kNsPerTick, cpu.system_ns / kNsPerTick,
                     group.children_user_ns / kNsPerTick, group.children_system_ns / kNsPerTick);
  // 18-22 priority, nice, threads, itrealvalue, start.
  out += fmt::format(" {} {} {} 0 {}", 20 + nice, nice, std::max<size_t>(1, group.threads.size()),
                     target.start_time_ns() / kNsPerTick);
  // 23-25 sizes.
  out += fmt::format(" {} {} {}", without_stub(number(field(host, 23))), field(host, 24),
                     group.limits[RLIMIT_RSS].rlim_cur);
  // 26-30 code, stack, registers (not shown while it runs).
  out += fmt::format(" {} {} {} 0 0", address(&AddressSpace::code_start),
                     address(&AddressSpace::code_end), address(&AddressSpace::stack_top));
  // 31-34 signals: the first 31 only.
  constexpr SignalMask kOld = 0x7fffffff;
  out += fmt::format(" {} {} {} {}", signals.pending & kOld, signals.blocked & kOld,
                     signals.ignored & kOld, signals.caught & kOld);
  // 35-37 wchan, swaps; 38 exit signal; 39 processor; 40-41 scheduling; 42-44 delays, guest times.
  out += fmt::format(" 0 0 0 {} {} 0 {} 0 0 0", target.is_thread ? -1 : group.exit_signal,
                     field(host, 39), task ? task->sched_policy : 0);
  // 45-52 data, brk, arguments, environment, exit code.
  out += fmt::format(" {} {} {} {} {} {} {} {}\n", address(&AddressSpace::code_end),
                     address(&AddressSpace::brk_start), address(&AddressSpace::brk_start),
                     address(&AddressSpace::arg_start), address(&AddressSpace::arg_end),
                     address(&AddressSpace::env_start), address(&AddressSpace::env_end),
                     group.zombie && may_inspect(reader, target) ? group.exit_status : 0);
  return out;
}

Result<std::string> statm_text(const ProcTarget& target, Task&) {
  const std::string text = host_text(target, "statm");
  const size_t end = text.find(' ');
  if (end == std::string::npos) return "0 0 0 0 0 0 0\n";
  constexpr uint64_t kPage = 4096;
  return fmt::format("{}{}", without_stub(number(text) * kPage) / kPage, text.substr(end));
}

Result<std::string> status_text(const ProcTarget& target, Task&) {
  const std::string host = host_text(target, "status");
  if (!target.exists()) return Err(ESRCH);
  const ThreadGroup& group = *target.group;
  Task* task = target.task();
  const char state = state_of(target);
  // Escaped as the kernel's proc_task_name() does.
  std::string name;
  for (const char c : target.comm())
    name += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  std::string out = fmt::format("Name:\t{}\n", name);
  if (task && task->fs_context) out += fmt::format("Umask:\t{:04o}\n", task->fs_context->umask);
  out += fmt::format("State:\t{}\nTgid:\t{}\nNgid:\t0\nPid:\t{}\nPPid:\t{}\nTracerPid:\t0\n",
                     state_name(state), group.pid, target.tid, parent_of(target));
  Credentials creds;
  if (task) {
    creds = task->creds();
  } else {
    creds.ruid = creds.euid = creds.suid = creds.fsuid = target.uid();
    creds.rgid = creds.egid = creds.sgid = creds.fsgid = target.gid();
  }
  out += fmt::format("Uid:\t{}\t{}\t{}\t{}\nGid:\t{}\t{}\t{}\t{}\n", creds.ruid, creds.euid,
                     creds.suid, creds.fsuid, creds.rgid, creds.egid, creds.sgid, creds.fsgid);
  int last_fd = -1;
  if (task && task->fd_table) {
    if (const auto fds = task->fd_table->list(); !fds.empty()) last_fd = fds.back();
  }
  out += fmt::format("FDSize:\t{}\nGroups:\t", task ? std::max(64, (last_fd / 64 + 1) * 64) : 0);
  for (const gid_t gid : creds.groups) out += fmt::format("{} ", gid);
  out += creds.groups.empty() ? " \n" : "\n";
  out += fmt::format("NStgid:\t{}\nNSpid:\t{}\nNSpgid:\t{}\nNSsid:\t{}\nKthread:\t0\n", group.pid,
                     target.tid, group.pgid, group.session ? group.session->id : 0);
  // Memory and context switches as the host counts them for the stub process.
  std::string switches;
  for (size_t at = 0; at < host.size();) {
    const size_t end = std::min(host.find('\n', at), host.size() - 1) + 1;
    const std::string_view line(host.data() + at, end - at);
    if (line.starts_with("VmPeak:") || line.starts_with("VmSize:")) {
      const size_t digits = std::min(line.find_first_of("0123456789"), line.size());
      out += fmt::format("{}{:>8} kB\n", line.substr(0, 8),
                         without_stub(number(line.substr(digits)) << 10) >> 10);
    } else if (line.starts_with("Vm") || line.starts_with("Rss") || line.starts_with("Hugetlb")) {
      out += line;
    }
    if (line.starts_with("voluntary_ctxt") || line.starts_with("nonvoluntary_ctxt"))
      switches += line;
    at = end;
  }
  if (task) out += "CoreDumping:\t0\nTHP_enabled:\t1\n";
  const SignalSets s = signals_of(target);
  const auto queued = static_cast<unsigned>(__builtin_popcountll(s.pending) +
                                            __builtin_popcountll(s.group_pending));
  out += fmt::format("Threads:\t{}\nSigQ:\t{}/{}\n", std::max<size_t>(1, group.threads.size()),
                     queued, group.limits[RLIMIT_SIGPENDING].rlim_cur);
  out += fmt::format(
      "SigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{:016x}\nSigCgt:\t{:016x}\n",
      s.pending, s.group_pending, s.blocked, s.ignored, s.caught);
  out += fmt::format(
      "CapInh:\t{:016x}\nCapPrm:\t{:016x}\nCapEff:\t{:016x}\nCapBnd:\t{:016x}\nCapAmb:\t{:016x}\n",
      creds.cap_inheritable, creds.cap_permitted, creds.cap_effective, creds.cap_bounding,
      creds.cap_ambient);
  out += fmt::format("NoNewPrivs:\t{}\nSeccomp:\t0\nSeccomp_filters:\t0\n",
                     creds.no_new_privs ? 1 : 0);
  const unsigned cpus = std::max(1u, target.kernel().cpu_count);
  const std::vector<uint64_t> affinity = task ? task->affinity : std::vector<uint64_t>();
  out += fmt::format("Cpus_allowed:\t{}\nCpus_allowed_list:\t{}\n", cpu_mask_text(affinity, cpus),
                     cpu_list_text(affinity, cpus));
  out += "Mems_allowed:\t1\nMems_allowed_list:\t0\n";
  out +=
      switches.empty() ? "voluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n" : switches;
  return out;
}

// Bytes are not counted for guests: all fields are there, and 0.
Result<std::string> io_text(const ProcTarget&, Task&) {
  return std::string(
      "rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: "
      "0\ncancelled_write_bytes: 0\n");
}

Result<std::string> limits_text(const ProcTarget& target, Task&) {
  std::string out =
      fmt::format("{:<25} {:<20} {:<20} {:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
  for (const LimitName& limit : kLimits) {
    const rlimit64& value = target.group->limits[static_cast<size_t>(limit.resource)];
    out += fmt::format("{:<25} {:<20} {:<20} {:<10}\n", limit.name, limit_text(value.rlim_cur),
                       limit_text(value.rlim_max), limit.unit);
  }
  return out;
}

}  // namespace uks
