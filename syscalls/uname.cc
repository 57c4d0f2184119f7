// uname, host and domain names, sysinfo.
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <cstring>

#include "gen/syscalls.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"

namespace uks {
namespace {

constexpr int kCapSysAdmin = 21;

Result<std::string> copy_in_name(Task& task, UserAddr name, int length) {
  if (!task.creds().has_cap(kCapSysAdmin)) return Err(EPERM);
  if (length < 0 || length > 64) return Err(EINVAL);
  std::string text(static_cast<size_t>(length), '\0');
  TRY(task.copy_in(name, text.data(), text.size()));
  if (const size_t end = text.find('\0'); end != std::string::npos) text.resize(end);
  return text;
}

template <size_t N>
void put(char (&field)[N], const std::string& text) {
  strncpy(field, text.c_str(), N - 1);
}

}  // namespace

Result<int64_t> sys_uname(Task& task, UserOut name) {
  utsname host{};
  ::uname(&host);
  utsname u{};
  put(u.sysname, "Linux");
  put(u.nodename, task.kernel().hostname);
  put(u.release, host.release);
  put(u.version, host.version);
  put(u.machine, "x86_64");
  put(u.domainname, task.kernel().domainname);
  static_assert(sizeof u == 390);
  TRY(task.copy_out(name, u));
  return 0;
}

Result<int64_t> sys_sethostname(Task& task, UserIn name, int length) {
  task.kernel().hostname = TRY(copy_in_name(task, name, length));
  return 0;
}

Result<int64_t> sys_setdomainname(Task& task, UserIn name, int length) {
  task.kernel().domainname = TRY(copy_in_name(task, name, length));
  return 0;
}

Result<int64_t> sys_sysinfo(Task& task, UserOut info) {
  // Memory and load are the host's own; the processes are ours.
  struct sysinfo host{};
  if (::sysinfo(&host) < 0) return HostErr();
  const MonotonicNs up = TRY(guest_clock_now(task, CLOCK_BOOTTIME));
  host.uptime = up / kNsPerSecond;
  size_t tasks = 0;
  for (const auto& [pid, group] : task.kernel().groups()) tasks += group->threads.size();
  host.procs = static_cast<uint16_t>(tasks > 0xffff ? 0xffff : tasks);
  TRY(task.copy_out(info, host));
  return 0;
}

}  // namespace uks
