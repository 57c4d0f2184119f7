// The files of /proc that are about the whole sandbox.
#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <time.h>

#include <algorithm>

#include "sentry/fs/proc/proc_fs.h"
#include "sentry/time/clock.h"

namespace uks {
namespace {

constexpr uint64_t kNsPerTick = 10'000'000;  // USER_HZ is 100

uint64_t clock_ns(clockid_t clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return static_cast<uint64_t>(to_ns(ts));
}

// CPU time of all guests, living and gone: who was waited for counts in its parent.
CpuTimes sandbox_cpu(ProcFs& fs) {
  CpuTimes sum;
  for (const auto& [pid, group] : fs.kernel().groups()) {
    const CpuTimes own = fs.kernel().cpu_times(*group);
    sum.user_ns += own.user_ns + group->children_user_ns;
    sum.system_ns += own.system_ns + group->children_system_ns;
  }
  // A process that nobody waited for takes its time along: never count backwards.
  fs.shown_cpu.user_ns = std::max(fs.shown_cpu.user_ns, sum.user_ns);
  fs.shown_cpu.system_ns = std::max(fs.shown_cpu.system_ns, sum.system_ns);
  return fs.shown_cpu;
}

// Time that `cpus` processors had, less what guests used, since the machine's start.
uint64_t idle_ns(uint64_t up_ns, unsigned cpus, const CpuTimes& used) {
  const uint64_t all = up_ns * cpus;
  return all > used.total_ns() ? all - used.total_ns() : 0;
}

unsigned cpus_of(const ProcFs& fs) { return std::max(1u, fs.kernel().cpu_count); }

std::string stat_file(ProcFs& fs) {
  const CpuTimes used = sandbox_cpu(fs);
  const uint64_t up = clock_ns(CLOCK_BOOTTIME);
  const unsigned cpus = cpus_of(fs);
  const auto line = [](const std::string& name, uint64_t user, uint64_t system, uint64_t idle) {
    return fmt::format("{} {} 0 {} {} 0 0 0 0 0 0\n", name, user / kNsPerTick, system / kNsPerTick,
                       idle / kNsPerTick);
  };
  const uint64_t idle = idle_ns(up, cpus, used);
  std::string out = line("cpu ", used.user_ns, used.system_ns, idle);
  // Who ran where is not known: all processors did the same.
  for (unsigned i = 0; i < cpus; i++) {
    out += line("cpu" + std::to_string(i), used.user_ns / cpus, used.system_ns / cpus, idle / cpus);
  }
  size_t running = 0, blocked = 0;
  for (const auto& [pid, group] : fs.kernel().groups()) {
    for (const Task* task : group->threads) {
      running += !task->is_blocked() && !group->stopped;
      blocked += task->waiting_for_vfork;
    }
  }
  const uint64_t boot = (clock_ns(CLOCK_REALTIME) - up) / kNsPerSecond;
  out += fmt::format("intr 0\nctxt 0\nbtime {}\nprocesses {}\nprocs_running {}\nprocs_blocked {}\n",
                     boot, fs.kernel().total_forks, std::max<size_t>(1, running), blocked);
  out += "softirq 0 0 0 0 0 0 0 0 0 0 0\n";
  return out;
}

std::string uptime_file(ProcFs& fs) {
  const uint64_t up = clock_ns(CLOCK_BOOTTIME);
  const uint64_t idle = idle_ns(up, cpus_of(fs), sandbox_cpu(fs));
  return fmt::format("{}.{:02} {}.{:02}\n", up / kNsPerSecond, up % kNsPerSecond / kNsPerTick,
                     idle / kNsPerSecond, idle % kNsPerSecond / kNsPerTick);
}

std::string loadavg_file(ProcFs& fs) {
  struct sysinfo host{};
  ::sysinfo(&host);  // the same numbers as sysinfo(2) gives
  size_t running = 0, total = 0;
  pid_t last = 0;
  for (const auto& [pid, group] : fs.kernel().groups()) {
    for (const Task* task : group->threads) {
      ++total;
      running += !task->is_blocked() && !group->stopped;
      last = std::max(last, task->tid());
    }
  }
  std::string out;
  for (const unsigned long load : host.loads) {
    // Fixed point with 16 bits; rounded as fs/proc/loadavg.c does.
    const unsigned long value = load + (1 << 16) / 200;
    out += fmt::format("{}.{:02} ", value >> 16, ((value & 0xffff) * 100) >> 16);
  }
  return out + fmt::format("{}/{} {}\n", running, total, last);
}

std::string meminfo_file(ProcFs& fs) {
  struct sysinfo now{};
  ::sysinfo(&now);
  const auto kib = [&](unsigned long units) {
    return static_cast<uint64_t>(units) * now.mem_unit / 1024;
  };
  std::string host = fs.host_text("/proc/meminfo");
  if (host.empty()) {
    host = fmt::format(
        "MemTotal:       {:8} kB\nMemFree:        {:8} kB\nMemAvailable:   {:8} kB\nBuffers:       "
        " {:8} kB\n"
        "Cached:         {:8} kB\nSwapCached:     {:8} kB\nActive:         {:8} kB\nInactive:      "
        " {:8} kB\n"
        "SwapTotal:      {:8} kB\nSwapFree:       {:8} kB\nShmem:          {:8} kB\nSReclaimable:  "
        " {:8} kB\n",
        kib(now.totalram), kib(now.freeram), kib(now.freeram), kib(now.bufferram), 0, 0, 0, 0,
        kib(now.totalswap), kib(now.freeswap), kib(now.sharedram), 0);
  }
  return refresh_meminfo(host, {.free_kib = kib(now.freeram),
                                .buffers_kib = kib(now.bufferram),
                                .shared_kib = kib(now.sharedram),
                                .swap_free_kib = kib(now.freeswap)});
}

std::string cpuinfo_file(ProcFs& fs) {
  std::string text = limit_cpuinfo(fs.host_text("/proc/cpuinfo"), cpus_of(fs));
  if (!text.empty()) return text;
  for (unsigned i = 0; i < cpus_of(fs); i++) {
    text += fmt::format("processor\t: {}\nvendor_id\t: unknown\nmodel name\t: unknown\n\n", i);
  }
  return text;
}

std::string version_file(ProcFs& fs) {
  const utsname& host = fs.host_name();
  if (const std::string& text = fs.host_text("/proc/version"); !text.empty()) return text;
  return fmt::format("Linux version {} {}\n", host.release, host.version);
}

// The types that a view is made of.
constexpr const char* kFilesystems =
    "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\nnodev\tdevtmpfs\nnodev\tpipefs\nnodev\tsockfs\nnodev"
    "\toverlay\n";

constexpr const char* kDevices =
    "Character devices:\n  1 mem\n  5 /dev/tty\n136 pts\n\nBlock devices:\n";

}  // namespace

std::string limit_cpuinfo(const std::string& host, unsigned count) {
  std::string out;
  unsigned number = 0;
  for (size_t at = 0; at < host.size() && number < count;) {
    size_t end = host.find("\n\n", at);
    end = end == std::string::npos ? host.size() : end + 2;
    std::string block = host.substr(at, end - at);
    at = end;
    if (!block.starts_with("processor")) continue;
    block.replace(0, block.find('\n'), "processor\t: " + std::to_string(number++));
    out += block;
  }
  return out;
}

std::string refresh_meminfo(const std::string& host, const FreeMemory& now) {
  const auto value_of = [&](std::string_view name) -> uint64_t {
    const size_t at = host.find(name);
    return at == std::string::npos ? 0 : strtoull(host.c_str() + at + name.size(), nullptr, 10);
  };
  const uint64_t old_free = value_of("MemFree:");
  const uint64_t old_available = value_of("MemAvailable:");
  // What is available beyond the free memory is page cache: taken to be as much as at the start.
  const uint64_t total = value_of("MemTotal:");
  const uint64_t available =
      std::min(now.free_kib + (old_available > old_free ? old_available - old_free : 0), total);
  const std::pair<std::string_view, uint64_t> changed[] = {
      {"MemFree:", now.free_kib}, {"MemAvailable:", available},     {"Buffers:", now.buffers_kib},
      {"Shmem:", now.shared_kib}, {"SwapFree:", now.swap_free_kib},
  };
  std::string out;
  for (size_t at = 0; at < host.size();) {
    const size_t end = std::min(host.find('\n', at), host.size() - 1) + 1;
    std::string line = host.substr(at, end - at);
    at = end;
    for (const auto& [name, value] : changed) {
      // Names are padded to 16 columns, values to 8.
      if (line.starts_with(name)) line = fmt::format("{:<16}{:>8} kB\n", name, value);
    }
    out += line;
  }
  return out;
}

std::string cpu_mask_text(const std::vector<uint64_t>& affinity, unsigned count) {
  std::string out;
  for (unsigned word = (count + 31) / 32; word-- > 0;) {
    const unsigned left = count - word * 32;
    uint32_t bits = left >= 32 ? ~0u : (1u << left) - 1;
    if (!affinity.empty()) {
      const uint64_t wide = word / 2 < affinity.size() ? affinity[word / 2] : 0;
      bits &= static_cast<uint32_t>(wide >> (word % 2 * 32));
    }
    out += out.empty() ? fmt::format("{:x}", bits) : fmt::format(",{:08x}", bits);
  }
  return out;
}

std::string cpu_list_text(const std::vector<uint64_t>& affinity, unsigned count) {
  const auto has = [&](unsigned cpu) {
    if (affinity.empty()) return true;
    return cpu / 64 < affinity.size() && (affinity[cpu / 64] >> (cpu % 64) & 1) != 0;
  };
  std::string out;
  for (unsigned cpu = 0; cpu < count; cpu++) {
    if (!has(cpu)) continue;
    unsigned last = cpu;
    while (last + 1 < count && has(last + 1)) ++last;
    if (!out.empty()) out += ',';
    out += last == cpu ? std::to_string(cpu) : fmt::format("{}-{}", cpu, last);
    cpu = last;
  }
  return out;
}

void add_global_files(ProcFs& fs, PseudoDir& root) {
  ProcFs* proc = &fs;  // its files hold the file system
  const auto add = [&](const char* name, std::string (*text)(ProcFs& fs)) {
    root.add_text(name, 0444, [proc, text](Task&) -> Result<std::string> { return text(*proc); });
  };
  add("cpuinfo", cpuinfo_file);
  add("loadavg", loadavg_file);
  add("meminfo", meminfo_file);
  add("stat", stat_file);
  add("uptime", uptime_file);
  add("version", version_file);
  root.add_fixed("cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\n");
  root.add_fixed("cmdline", "\n");
  root.add_fixed("devices", kDevices);
  root.add_fixed("diskstats", "");
  root.add_fixed("filesystems", kFilesystems);
  root.add_fixed("modules", "");
  root.add_fixed("partitions", "major minor  #blocks  name\n\n");
  // Paging is not counted for guests; vmstat(8) wants the names.
  root.add_fixed("vmstat", "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\n");
  root.add_fixed("swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
}

}  // namespace uks
