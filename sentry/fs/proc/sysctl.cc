// /proc/sys: the settings that programs ask for. They say what holds in the sandbox and cannot be
// set.
#include <fmt/format.h>
#include <sys/random.h>

#include "sentry/fs/inotify/inotify.h"
#include "sentry/fs/proc/proc_fs.h"

namespace uks {
namespace {

// A version 4 UUID of random bytes (RFC 9562).
std::string fresh_uuid() {
  unsigned char b[16] = {};
  (void)!getrandom(b, sizeof b, 0);
  b[6] = static_cast<unsigned char>((b[6] & 0x0f) | 0x40);
  b[8] = static_cast<unsigned char>((b[8] & 0x3f) | 0x80);
  std::string text;
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", b[i]);
  }
  return text;
}

void add_kernel(ProcFs& fs, PseudoDir& kernel) {
  ProcFs* proc = &fs;
  kernel.add_text("hostname", 0444,
                  [proc](Task&) -> Result<std::string> { return proc->kernel().hostname + "\n"; });
  kernel.add_text("domainname", 0444, [proc](Task&) -> Result<std::string> {
    return proc->kernel().domainname + "\n";
  });
  kernel.add_text("threads-max", 0444, [proc](Task&) -> Result<std::string> {
    return std::to_string(proc->kernel().max_tasks) + "\n";
  });
  kernel.add_fixed("ostype", "Linux\n");
  kernel.add_fixed("osrelease", std::string(fs.host_name().release) + "\n");
  kernel.add_fixed("version", std::string(fs.host_name().version) + "\n");
  kernel.add_fixed("pid_max", "4194304\n");
  kernel.add_fixed("ngroups_max", "65536\n");
  kernel.add_fixed("cap_last_cap", "40\n");
  kernel.add_fixed("randomize_va_space", "2\n");
  kernel.add_fixed("core_pattern", "core\n");
  kernel.add_fixed("core_uses_pid", "0\n");
  kernel.add_fixed("dmesg_restrict", "1\n");
  kernel.add_fixed("kptr_restrict", "2\n");
  kernel.add_fixed("perf_event_paranoid", "4\n");
  kernel.add_fixed("unprivileged_bpf_disabled", "2\n");
  kernel.add_fixed("overflowuid", "65534\n");
  kernel.add_fixed("overflowgid", "65534\n");
  kernel.add_fixed("printk", "4\t4\t1\t7\n");
  kernel.add_fixed("tainted", "0\n");
  kernel.add_fixed("panic", "0\n");
  kernel.add_fixed("sched_child_runs_first", "0\n");
  kernel.dir("seccomp").add_fixed("actions_avail", "\n");
  PseudoDir& random = kernel.dir("random");
  random.add_text("boot_id", 0444, [proc](Task&) -> Result<std::string> {
    return proc->kernel().machine_boot_id + "\n";
  });
  random.add_text("uuid", 0444, [](Task&) -> Result<std::string> { return fresh_uuid() + "\n"; });
  random.add_fixed("entropy_avail", "256\n");
  random.add_fixed("poolsize", "256\n");
}

}  // namespace

void add_sysctl_files(ProcFs& fs, PseudoDir& sys) {
  add_kernel(fs, sys.dir("kernel"));
  PseudoDir& files = sys.dir("fs");
  files.add_fixed("file-max", "9223372036854775807\n");
  files.add_fixed("nr_open", "1048576\n");
  files.add_fixed("pipe-max-size", "1048576\n");
  files.add_fixed("pipe-user-pages-soft", "16384\n");
  files.add_fixed("pipe-user-pages-hard", "0\n");
  files.add_fixed("lease-break-time", "45\n");
  files.add_fixed("overflowuid", "65534\n");
  files.add_fixed("overflowgid", "65534\n");
  files.add_fixed("protected_hardlinks", "0\n");
  files.add_fixed("protected_symlinks", "0\n");
  files.add_fixed("suid_dumpable", "0\n");
  files.dir("epoll").add_fixed("max_user_watches", "1048576\n");
  PseudoDir& inotify = files.dir("inotify");
  inotify.add_fixed("max_queued_events", std::to_string(InotifyFile::kMaxEvents) + "\n");
  inotify.add_fixed("max_user_instances", std::to_string(InotifyFile::kMaxInstances) + "\n");
  inotify.add_fixed("max_user_watches", std::to_string(InotifyFile::kMaxWatches) + "\n");
  PseudoDir& memory = sys.dir("vm");
  memory.add_fixed("overcommit_memory", "0\n");
  memory.add_fixed("overcommit_ratio", "50\n");
  memory.add_fixed("max_map_count", "65530\n");
  memory.add_fixed("mmap_min_addr", "65536\n");
  memory.add_fixed("swappiness", "60\n");
  memory.add_fixed("nr_hugepages", "0\n");
  PseudoDir& net = sys.dir("net");
  net.dir("core").add_fixed("somaxconn", "4096\n");
  net.dir("core").add_fixed("rmem_max", "212992\n");
  net.dir("core").add_fixed("wmem_max", "212992\n");
  net.dir("ipv4").add_fixed("ip_local_port_range", "32768\t60999\n");
  net.dir("unix").add_fixed("max_dgram_qlen", "512\n");
  sys.dir("user").add_fixed("max_user_namespaces", "0\n");
}

}  // namespace uks
