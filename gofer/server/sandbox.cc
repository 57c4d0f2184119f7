// The gofer's confinement.
#include "gofer/server/sandbox.h"

#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "gofer/server/host_fs.h"
#include "platform/base/close_descriptors.h"
#include "platform/base/log.h"
#include "platform/host/gofer_filter.h"
#include "platform/host/sanitizer_calls.h"

namespace uks::gofer {
namespace {

#ifdef NDEBUG
constexpr bool kDiagnose = false;
#else
constexpr bool kDiagnose = true;
#endif

bool reduce_capabilities() {
  constexpr uint64_t kKeep =
      1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FOWNER | 1ull << CAP_FSETID;
  // Fails without CAP_SETPCAP, where there is nothing to lose: no_new_privs makes the bounding set
  // moot. EINVAL marks the end of what the kernel knows.
  for (int cap = 0; cap <= 63; ++cap) {
    if (!(kKeep >> cap & 1) && ::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) break;
  }
  (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) < 0) return false;
  uint64_t keep = ::geteuid() == 0 ? kKeep : 0;
  for (int half = 0; half < 2; ++half) {
    uint32_t mask = static_cast<uint32_t>(keep >> (32 * half));
    data[half].permitted &= mask;
    data[half].effective = data[half].permitted;
    data[half].inheritable = 0;
  }
  return syscall(SYS_capset, &header, data) == 0;
}

// Landlock bounds what the process reaches at all to the trees; rules within them are our own code,
// since Landlock cannot deny below an allowed directory.
void enter_landlock(const Server& server) {
  long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  // ABI 1 makes every rename or link between directories EXDEV.
  if (abi < 2) return;
  constexpr uint64_t kTruncate = 1ull << 14;  // LANDLOCK_ACCESS_FS_TRUNCATE, ABI 3
  constexpr uint64_t kFileRead = LANDLOCK_ACCESS_FS_READ_FILE;
  constexpr uint64_t kRead = kFileRead | LANDLOCK_ACCESS_FS_READ_DIR;
  uint64_t file_write = LANDLOCK_ACCESS_FS_WRITE_FILE | (abi >= 3 ? kTruncate : 0);
  uint64_t write = file_write | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                   LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                   LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                   LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER;
  landlock_ruleset_attr attr{};
  attr.handled_access_fs = kRead | write | LANDLOCK_ACCESS_FS_EXECUTE |
                           LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK;
  UniqueFd ruleset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0)));
  if (!ruleset) return;
  for (const Tree& tree : server.trees()) {
    auto root = stat_at(tree.fd.get(), "");
    bool directory = root && root->is_directory();
    landlock_path_beneath_attr rule{};
    rule.parent_fd = tree.fd.get();
    rule.allowed_access = directory ? kRead | (tree.writable ? write : 0)
                                    : kFileRead | (tree.writable ? file_write : 0);
    if (syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0) {
      // A domain without this tree would break it; a gofer without a domain is still under its own
      // rules.
      LOG_WARN("no Landlock: {} cannot be a rule (errno {})", tree.root, errno);
      return;
    }
  }
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0) < 0)
    LOG_WARN("no Landlock: errno {}", errno);
}

void set_limits() {
  rlimit core{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &core);
  rlimit files;
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
}

// Development builds say which call it was; the call itself is not made in any build.
void report_violation(int, siginfo_t* info, void*) {
  char line[] = "uks: internal: gofer: forbidden system call 0000\n";
  int number = info->si_syscall;
  for (size_t i = sizeof(line) - 3; number > 0 && line[i] != ' '; --i, number /= 10) {
    line[i] = static_cast<char>('0' + number % 10);
  }
  (void)!::write(2, line, sizeof(line) - 1);
  ::_exit(125);
}

}  // namespace

void close_all_but(std::span<const int> keep) {
  std::vector<int> sorted(keep.begin(), keep.end());
  std::sort(sorted.begin(), sorted.end());
  unsigned next = 3;
  for (int fd : sorted) {
    if (fd < 3) continue;
    auto kept = static_cast<unsigned>(fd);
    if (kept > next) close_descriptors(next, kept - 1);
    next = std::max(next, kept + 1);
  }
  close_descriptors(next);
}

bool drop_privileges(const Server& server) {
  ::umask(0);
  set_limits();
  if (!reduce_capabilities()) return false;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return false;
  // Stubs and other processes of the caller have the same uid: none of them may attach here.
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return false;
  enter_landlock(server);
  return true;
}

bool install_filter(const Server& server, std::span<const int> connections, int log_fd) {
  if (kDiagnose) {
    struct sigaction action{};
    action.sa_sigaction = report_violation;
    action.sa_flags = SA_SIGINFO;
    if (::sigaction(SIGSYS, &action, nullptr) < 0) return false;
  }
  GoferDescriptors descriptors{server.proc_fd(), connections, server.inotify_fd(), log_fd};
  bpf::Program program =
      gofer_filter(descriptors, kDiagnose ? bpf::trap() : bpf::kill_process(), kSanitized);
  auto installed = bpf::install(program, SECCOMP_FILTER_FLAG_TSYNC);
  return installed && *installed == 0;
}

}  // namespace uks::gofer
