// Inside of /proc: the file system object, whom a directory is about, and who may look.
#pragma once
#include <sys/utsname.h>

#include <map>
#include <string>

#include "sentry/fs/pseudo/pseudo.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/vfs/file.h"
#include "sentry/vfs/view_config.h"

namespace uks {

class ProcFs final : public PseudoFs {
 public:
  ProcFs(Kernel& kernel, const ViewConfig& config);
  // Processes come and go by themselves: no name is kept.
  MonotonicNs name_ttl() const override { return 0; }

  Kernel& kernel() const { return kernel_; }
  // A host file's text as the keeper read it; empty: none.
  const std::string& host_text(const std::string& path) const;
  const utsname& host_name() const { return host_name_; }
  // Woken when a mount namespace changes, for pollers of mounts and mountinfo.
  WaitQueue mounts_changed;
  // The largest CPU time that /proc/stat has shown: it must not go back when a process is
  // forgotten.
  CpuTimes shown_cpu;

 private:
  Kernel& kernel_;
  std::map<std::string, std::string> host_texts_;
  utsname host_name_{};
};

// Whom a directory is about: a process (/proc/PID) or one thread (/proc/PID/task/TID). Threads are
// looked up at each use, so that open files of /proc keep nobody's tables alive.
struct ProcTarget {
  Ref<ThreadGroup> group;
  pid_t tid = 0;
  bool is_thread = false;

  Kernel& kernel() const { return group->kernel; }
  // Still there, be it as a zombie. ESRCH for reads otherwise.
  bool exists() const;
  // The thread, or one that speaks for the process: its leader or, when that is gone, another. Null
  // for a zombie.
  Task* task() const;
  std::string comm() const;
  uint64_t start_time_ns() const;  // CLOCK_BOOTTIME
  // Owner of the directory and its files.
  uint32_t uid() const;
  uint32_t gid() const;
};

// ptrace_may_access(PTRACE_MODE_READ): the same process, the same user or CAP_SYS_PTRACE, and
// nothing that was set undumpable. EACCES.
Result<void> may_inspect(Task& reader, const ProcTarget& target);

// /proc/PID or /proc/PID/task/TID.
Ref<PseudoInode> make_target_dir(ProcFs& fs, ProcTarget target, uint64_t ino);
// The directories fd and fdinfo, and the links cwd, root, exe.
Ref<PseudoInode> make_fd_dir(ProcFs& fs, ProcTarget target, uint64_t ino);
Ref<PseudoInode> make_fdinfo_dir(ProcFs& fs, ProcTarget target, uint64_t ino);
enum class PlaceLink { kCwd, kRoot, kExe };
Ref<PseudoInode> make_place_link(ProcFs& fs, ProcTarget target, uint64_t ino, PlaceLink what);
Ref<PseudoInode> make_namespace_dir(ProcFs& fs, ProcTarget target, uint64_t ino);

// ---- Texts of one process. `reader` is who asks.
Result<std::string> stat_text(const ProcTarget& target, Task& reader);
Result<std::string> status_text(const ProcTarget& target, Task& reader);
Result<std::string> statm_text(const ProcTarget& target, Task& reader);
Result<std::string> io_text(const ProcTarget& target, Task& reader);
Result<std::string> limits_text(const ProcTarget& target, Task& reader);
Result<std::string> cmdline_text(const ProcTarget& target, Task& reader);
Result<std::string> environ_text(const ProcTarget& target, Task& reader);
Result<std::string> auxv_text(const ProcTarget& target, Task& reader);
Result<std::string> maps_text(const ProcTarget& target, Task& reader);
Result<std::string> smaps_text(const ProcTarget& target, Task& reader);
Result<std::string> smaps_rollup_text(const ProcTarget& target, Task& reader);
Result<std::string> mounts_text(const ProcTarget& target, Task& reader);
Result<std::string> mountinfo_text(const ProcTarget& target, Task& reader);

// ---- The files that are about no process (global.cc, sysctl.cc).
void add_global_files(ProcFs& fs, PseudoDir& root);
void add_sysctl_files(ProcFs& fs, PseudoDir& sys);

// ---- Text generators, apart for tests.
// `cpuinfo` of a host, cut to `count` processors numbered from 0.
std::string limit_cpuinfo(const std::string& host, unsigned count);
// The host's meminfo with the free amounts of now, in KiB.
struct FreeMemory {
  uint64_t free_kib = 0, buffers_kib = 0, shared_kib = 0, swap_free_kib = 0;
};
std::string refresh_meminfo(const std::string& host, const FreeMemory& now);
// The sums of an smaps text, as smaps_rollup shows them; empty for an empty one.
std::string roll_up(const std::string& smaps);
// A path as in /proc/mounts: blanks, backslashes and # in octal (mangle_path()).
std::string mangle(std::string_view text);
// A mask of the first `count` CPUs as in status: "3", "ffffffff,ffffffff"; and as a list: "0-1".
std::string cpu_mask_text(const std::vector<uint64_t>& affinity, unsigned count);
std::string cpu_list_text(const std::vector<uint64_t>& affinity, unsigned count);

}  // namespace uks
