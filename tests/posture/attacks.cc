// The list.
#include "tests/posture/attacks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "platform/keeper/fds.h"
#include "platform/keeper/protocol.h"

namespace posture {

thread_local bool attacking = false;

void on_refused(void* context) {
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = kRefused;
}

namespace {

uint64_t word(const void* p) { return reinterpret_cast<uint64_t>(p); }

long raw(long nr, uint64_t a1 = 0, uint64_t a2 = 0, uint64_t a3 = 0, uint64_t a4 = 0,
         uint64_t a5 = 0, uint64_t a6 = 0) {
  long result;
  register uint64_t r10 __asm__("r10") = a4;
  register uint64_t r8 __asm__("r8") = a5;
  register uint64_t r9 __asm__("r9") = a6;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(nr), "D"(a1), "S"(a2), "d"(a3), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

class Attacker {
 public:
  Attacker(const Target& target, bool confined, Report& report)
      : t_(target), confined_(confined), report_(report) {}

  void files();
  void memory_of_others();
  void signals();
  void other_processes();
  void sockets();
  void descriptors();
  void new_processes();
  void own_memory();
  void kernel_interfaces();
  void every_number();

 private:
  template <typename... Args>
  long attempt(const char* name, long nr, Args... args) {
    const long result = raw(nr, static_cast<uint64_t>(args)...);
    say(name, result);
    return result;
  }
  void say(const char* name, long result) {
    char verdict[32];
    snprintf(verdict, sizeof verdict, "%ld", result);
    report_.add(name, result == kRefused ? "filter" : verdict);
  }
  // A descriptor that should not have come to be: closed again.
  template <typename... Args>
  void attempt_open(const char* name, long nr, Args... args) {
    const long fd = attempt(name, nr, args...);
    if (fd >= 0) raw(SYS_close, static_cast<uint64_t>(fd));
  }

  const Target& t_;
  const bool confined_;
  Report& report_;
};

void Attacker::files() {
  const uint64_t cwd = static_cast<uint64_t>(AT_FDCWD);
  char path[128];
  attempt_open("open", SYS_open, word(t_.file), O_RDONLY);
  attempt_open("openat", SYS_openat, cwd, word(t_.file), O_RDONLY);
  attempt_open("openat_write", SYS_openat, cwd, word(t_.file), O_WRONLY);
  attempt_open("openat_path", SYS_openat, cwd, word(t_.file), O_PATH);
  attempt_open("openat_root", SYS_openat, cwd, word("/"), O_RDONLY | O_DIRECTORY);
  open_how how{};
  how.flags = O_RDONLY;
  attempt_open("openat2", SYS_openat2, cwd, word(t_.file), word(&how), sizeof how);
  snprintf(path, sizeof path, "%s.new", t_.file);
  attempt_open("creat", SYS_creat, word(path), 0600);
  attempt("unlink_created", SYS_unlink, word(path));
  for (const char* name : {"mem", "maps", "environ", "cmdline", "fd", "root", "cwd"}) {
    char what[32];
    snprintf(path, sizeof path, "/proc/%d/%s", t_.pid, name);
    snprintf(what, sizeof what, "open_proc_%s", name);
    attempt_open(what, SYS_openat, cwd, word(path), O_RDONLY);
  }
  snprintf(path, sizeof path, "/proc/%d/mem", t_.pid);
  attempt_open("open_proc_mem_rw", SYS_openat, cwd, word(path), O_RDWR);
  attempt_open("open_own_mem", SYS_openat, cwd, word("/proc/self/mem"), O_RDWR);
  char buffer[512];
  attempt("stat", SYS_stat, word(t_.file), word(buffer));
  attempt("newfstatat", SYS_newfstatat, cwd, word(t_.file), word(buffer), 0);
  attempt("access", SYS_access, word(t_.file), R_OK);
  snprintf(path, sizeof path, "/proc/%d/exe", t_.pid);
  attempt("readlink", SYS_readlink, word(path), word(buffer), sizeof buffer);
  if (!confined_) return;
  attempt("statx", SYS_statx, cwd, word(t_.file), 0, 0x7ff, word(buffer));
  attempt("truncate", SYS_truncate, word(t_.file), 0);
  attempt("unlink", SYS_unlink, word(t_.file));
  attempt("unlinkat", SYS_unlinkat, cwd, word(t_.file), 0);
  attempt("rename", SYS_rename, word(t_.file), word("/tmp/uks-attack-gone"));
  attempt("link", SYS_link, word(t_.file), word("/tmp/uks-attack-link"));
  attempt("symlink", SYS_symlink, word(t_.file), word("/tmp/uks-attack-link"));
  attempt("mkdir", SYS_mkdir, word("/tmp/uks-attack-dir"), 0700);
  attempt("mknod", SYS_mknod, word("/tmp/uks-attack-node"), 0010600, 0);
  attempt("chmod", SYS_chmod, word(t_.file), 0777);
  attempt("chown", SYS_chown, word(t_.file), 0, 0);
  attempt("setxattr", SYS_setxattr, word(t_.file), word("user.x"), word("x"), 1, 0);
  attempt("utimensat", SYS_utimensat, cwd, word(t_.file), 0, 0);
  attempt("chdir", SYS_chdir, word("/"));
  attempt("chroot", SYS_chroot, word("/"));
  attempt("mount", SYS_mount, word("none"), word("/tmp"), word("tmpfs"), 0, 0);
  attempt("umount2", SYS_umount2, word("/tmp"), 2);
  attempt("open_tree", 428, cwd, word("/"), 1);
  attempt("name_to_handle_at", SYS_name_to_handle_at, cwd, word(t_.file), word(buffer),
          word(buffer + 256), 0);
  attempt("open_by_handle_at", SYS_open_by_handle_at, 0, word(buffer), O_RDONLY);
  attempt("inotify_init1", SYS_inotify_init1, 0);
  attempt("fanotify_init", SYS_fanotify_init, 0, O_RDONLY);
  attempt("acct", SYS_acct, word(t_.file));
  attempt("swapon", SYS_swapon, word(t_.file), 0);
  attempt("uselib", SYS_uselib, word(t_.file));
}

void Attacker::memory_of_others() {
  char buffer[kSecretSize] = {};
  iovec local{buffer, sizeof buffer};
  iovec remote{reinterpret_cast<void*>(t_.secret), sizeof buffer};
  attempt("process_vm_readv", SYS_process_vm_readv, t_.pid, word(&local), 1, word(&remote), 1, 0);
  if (confined_)
    attempt("process_vm_writev", SYS_process_vm_writev, t_.pid, word(&local), 1, word(&remote), 1,
            0);
  if (attempt("ptrace_seize", SYS_ptrace, PTRACE_SEIZE, t_.pid, 0, 0) == 0) {
    raw(SYS_ptrace, PTRACE_INTERRUPT, static_cast<uint64_t>(t_.pid));
    raw(SYS_wait4, static_cast<uint64_t>(t_.pid), 0, __WALL, 0);
    raw(SYS_ptrace, PTRACE_DETACH, static_cast<uint64_t>(t_.pid));
  }
  if (!confined_) return;
  attempt("ptrace_attach", SYS_ptrace, PTRACE_ATTACH, t_.pid, 0, 0);
  attempt("ptrace_traceme", SYS_ptrace, PTRACE_TRACEME, 0, 0, 0);
  struct Request {
    const char* name;
    long number;
  };
  // The last seven are what platform ptrace needs: they find no tracee here.
  for (const auto& [name, number] : {Request{"ptrace_kill", PTRACE_KILL},
                                     {"ptrace_detach", PTRACE_DETACH},
                                     {"ptrace_interrupt", PTRACE_INTERRUPT},
                                     {"ptrace_setoptions", PTRACE_SETOPTIONS},
                                     {"ptrace_getsiginfo", PTRACE_GETSIGINFO},
                                     {"ptrace_peekuser", PTRACE_PEEKUSER},
                                     {"ptrace_cont", PTRACE_CONT},
                                     {"ptrace_syscall", PTRACE_SYSCALL},
                                     {"ptrace_listen", PTRACE_LISTEN},
                                     {"ptrace_getregs", PTRACE_GETREGS},
                                     {"ptrace_setregs", PTRACE_SETREGS},
                                     {"ptrace_peekdata", PTRACE_PEEKDATA},
                                     {"ptrace_pokedata", PTRACE_POKEDATA}}) {
    char memory[512] = {};
    attempt(name, SYS_ptrace, number, t_.pid, t_.secret, word(memory));
  }
  attempt("process_madvise", SYS_process_madvise, 3, word(&remote), 1, MADV_COLD, 0);
  attempt("process_mrelease", 448, 3, 0);
  uint64_t page = t_.secret & ~uint64_t{4095};
  attempt("move_pages", SYS_move_pages, t_.pid, 1, word(&page), 0, word(buffer), 0);
  attempt("migrate_pages", SYS_migrate_pages, t_.pid, 64, word(buffer), word(buffer));
  attempt("kcmp", SYS_kcmp, t_.pid, t_.pid, 0, 0, 0);
  uint64_t list[2];
  attempt("get_robust_list", SYS_get_robust_list, t_.pid, word(&list[0]), word(&list[1]));
  attempt("perf_event_open", SYS_perf_event_open, word(buffer), t_.pid, -1, -1, 0);
}

void Attacker::signals() {
  siginfo_t info{};
  char name[40];
  const auto each = [&](int signo) {
    info.si_signo = signo;
    info.si_code = SI_QUEUE;
    snprintf(name, sizeof name, "kill_%d", signo);
    attempt(name, SYS_kill, t_.pid, signo);
    snprintf(name, sizeof name, "tkill_%d", signo);
    attempt(name, SYS_tkill, t_.tid, signo);
    snprintf(name, sizeof name, "tgkill_%d", signo);
    attempt(name, SYS_tgkill, t_.pid, t_.tid, signo);
    snprintf(name, sizeof name, "rt_sigqueueinfo_%d", signo);
    attempt(name, SYS_rt_sigqueueinfo, t_.pid, signo, word(&info));
    snprintf(name, sizeof name, "rt_tgsigqueueinfo_%d", signo);
    attempt(name, SYS_rt_tgsigqueueinfo, t_.pid, t_.tid, signo, word(&info));
  };
  if (!confined_) {
    each(kQueued);
    const long pidfd = attempt("pidfd_open", SYS_pidfd_open, t_.pid, 0);
    attempt("pidfd_send_signal", SYS_pidfd_send_signal, pidfd, kQueued, 0, 0);
    raw(SYS_close, static_cast<uint64_t>(pidfd));
    return;
  }
  for (int signo = 0; signo <= 64; signo++) each(signo);
  // Only the number that says whether it could: a real signal would reach all that this user has.
  attempt("kill_all", SYS_kill, -1, 0);
  attempt("kill_group", SYS_kill, -t_.pid, SIGTERM);
  attempt("kill_keeper", SYS_kill, t_.keeper, SIGTERM);
  // The upper half of the register does not count: neither may it for the filter.
  attempt("tgkill_9_upper", SYS_tgkill, t_.pid, t_.tid, uint64_t{1} << 32 | SIGKILL);
  attempt("pidfd_open", SYS_pidfd_open, t_.pid, 0);
  for (int fd = 0; fd < 80; fd++) {
    snprintf(name, sizeof name, "pidfd_send_signal_%d", fd);
    attempt(name, SYS_pidfd_send_signal, fd, SIGTERM, 0, 0);
  }
  attempt("pidfd_getfd", SYS_pidfd_getfd, 3, 0, 0);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGTERM;
  int id;
  attempt("timer_create", SYS_timer_create, CLOCK_MONOTONIC, word(&event), word(&id));
  attempt("setitimer", SYS_setitimer, ITIMER_REAL, 0, 0);
}

void Attacker::other_processes() {
  siginfo_t info{};
  attempt("waitid_pid", SYS_waitid, P_PID, t_.pid, word(&info),
          WEXITED | WSTOPPED | WNOHANG | WNOWAIT, 0);
  uint64_t cpus[16] = {};
  attempt("sched_getaffinity", SYS_sched_getaffinity, t_.pid, sizeof cpus, word(cpus));
  timespec time{};
  attempt("clock_gettime_cpu", SYS_clock_gettime, ~static_cast<uint32_t>(t_.pid) << 3 | 2,
          word(&time));
  uint64_t limits[2] = {};
  attempt("prlimit64_get", SYS_prlimit64, t_.pid, 7, 0, word(limits));
  if (!confined_) return;
  attempt("prlimit64_set", SYS_prlimit64, t_.pid, 7, word(limits), 0);
  attempt("setpriority", SYS_setpriority, 0, t_.pid, 19);
  attempt("sched_setaffinity", SYS_sched_setaffinity, t_.pid, sizeof cpus, word(cpus));
  int priority = 0;
  attempt("sched_setscheduler", SYS_sched_setscheduler, t_.pid, SCHED_IDLE, word(&priority));
  attempt("ioprio_set", SYS_ioprio_set, 1, t_.pid, 0);
  attempt("setpgid", SYS_setpgid, t_.pid, t_.pid);
  attempt("getsid", SYS_getsid, t_.pid);
  attempt("wait4", SYS_wait4, t_.pid, 0, WNOHANG, 0);
}

// A datagram with an address, on every descriptor that may be a socket.
void Attacker::sockets() {
  sockaddr_un path{}, abstract{};
  path.sun_family = abstract.sun_family = AF_UNIX;
  strncpy(path.sun_path, t_.datagram, sizeof path.sun_path - 1);
  const size_t length = strnlen(t_.abstract, sizeof t_.abstract);
  memcpy(abstract.sun_path + 1, t_.abstract, length);
  sockaddr_in udp{};
  udp.sin_family = AF_INET;
  udp.sin_port = htons(t_.udp_port);
  udp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  struct Address {
    const char* name;
    void* at;
    unsigned size;
  };
  const Address addresses[] = {
      {"path", &path, sizeof path},
      {"abstract", &abstract, static_cast<unsigned>(offsetof(sockaddr_un, sun_path) + 1 + length)},
      {"udp", &udp, sizeof udp}};
  char byte[] = "!";
  // To the keeper something that it takes for a word of the sentry's; the gofer's connections are
  // of the same kind (SOCK_SEQPACKET pairs), and it would end for a word that it does not know.
  uks::keeper::Message ready{};
  ready.op = uks::keeper::Op::kReady;
  for (int fd = 0; fd < 128; fd++) {
    if (confined_ && fd >= uks::keeper::kFirstGoferFd &&
        fd < uks::keeper::kFirstGoferFd + uks::keeper::kGoferConnections)
      continue;
    iovec part{byte, 1};
    if (confined_ && fd == uks::keeper::kKeeperFd) part = {&ready, sizeof ready};
    for (const Address& address : addresses) {
      char name[48];
      msghdr message{};
      message.msg_name = address.at;
      message.msg_namelen = address.size;
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      snprintf(name, sizeof name, "sendmsg_%s_%d", address.name, fd);
      attempt(name, SYS_sendmsg, fd, word(&message), MSG_DONTWAIT | MSG_NOSIGNAL);
      snprintf(name, sizeof name, "sendto_%s_%d", address.name, fd);
      if (confined_)
        attempt(name, SYS_sendto, fd, word(byte), 1, MSG_DONTWAIT, word(address.at), address.size);
    }
  }
  attempt_open("socket_unix", SYS_socket, AF_UNIX, SOCK_STREAM, 0);
  attempt_open("socket_inet", SYS_socket, AF_INET, SOCK_STREAM, 0);
  attempt_open("socket_netlink", SYS_socket, AF_NETLINK, SOCK_RAW, 0);
  if (!confined_) return;
  sockaddr_un stream{};
  stream.sun_family = AF_UNIX;
  strncpy(stream.sun_path, t_.stream, sizeof stream.sun_path - 1);
  int ends[2];
  attempt("socketpair", SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, word(ends));
  for (int fd = 0; fd < 16; fd++) {
    char name[48];
    snprintf(name, sizeof name, "connect_%d", fd);
    attempt(name, SYS_connect, fd, word(&stream), sizeof stream);
    snprintf(name, sizeof name, "bind_%d", fd);
    attempt(name, SYS_bind, fd, word(&abstract), 8);
  }
  attempt("listen", SYS_listen, 5, 1);
  attempt("accept4", SYS_accept4, 5, 0, 0, 0);
  attempt("sendmmsg", SYS_sendmmsg, 5, 0, 0, 0);
  attempt("recvmmsg", SYS_recvmmsg, 5, 0, 0, 0, 0);
  int one = 1;
  attempt("setsockopt", SYS_setsockopt, 5, SOL_SOCKET, SO_PASSCRED, word(&one), sizeof one);
}

void Attacker::descriptors() {
  if (!confined_) return;
  char name[48];
  struct Command {
    const char* name;
    int number;
  };
  // Whoever is named the owner of a descriptor is sent a signal of choice when something arrives.
  for (int fd = 0; fd < 16; fd++) {
    for (const auto& [command, number] : {Command{"setown", F_SETOWN},
                                          {"setsig", F_SETSIG},
                                          {"setfl", F_SETFL},
                                          {"setown_ex", 15},
                                          {"setlease", F_SETLEASE},
                                          {"notify", F_NOTIFY},
                                          {"setlk", F_SETLK},
                                          {"dupfd", F_DUPFD}}) {
      snprintf(name, sizeof name, "fcntl_%s_%d", command, fd);
      attempt(name, SYS_fcntl, fd, number, number == F_SETSIG ? SIGKILL : t_.pid);
    }
    for (const auto& [command, number] : {Command{"tiocsti", TIOCSTI},
                                          {"tioclinux", 0x541c},
                                          {"tiocsetd", TIOCSETD},
                                          {"tiocsctty", TIOCSCTTY},
                                          {"tiocspgrp", TIOCSPGRP},
                                          {"fioasync", FIOASYNC},
                                          {"fiosetown", 0x8901},
                                          {"siocspgrp", 0x8902},
                                          {"tiocgpgrp", TIOCGPGRP},
                                          {"ficlone", 0x40049409},
                                          {"fionbio", FIONBIO}}) {
      int value = t_.pid;
      snprintf(name, sizeof name, "ioctl_%s_%d", command, fd);
      attempt(name, SYS_ioctl, fd, number, word(&value));
    }
  }
  // The upper half of the request does not count.
  int value = t_.pid;
  attempt("ioctl_tiocsti_upper", SYS_ioctl, 0, uint64_t{1} << 32 | TIOCSTI, word(&value));
  attempt("fcntl_setown_upper", SYS_fcntl, 5, uint64_t{1} << 32 | F_SETOWN, t_.pid);
  attempt("dup", SYS_dup, 0);
  attempt("dup2", SYS_dup2, 0, 100);
  attempt("splice", SYS_splice, 0, 0, 1, 0, 1, 0);
  attempt("sendfile", SYS_sendfile, 1, 0, 0, 1);
  attempt("copy_file_range", SYS_copy_file_range, 0, 0, 1, 0, 1, 0);
  attempt("vmsplice", SYS_vmsplice, 1, 0, 0, 0);
  attempt("getdents64", SYS_getdents64, 0, 0, 0);
}

void Attacker::new_processes() {
  if (!confined_) return;
  const char* argv[] = {"/bin/true", nullptr};
  attempt("execve", SYS_execve, word(argv[0]), word(argv), 0);
  attempt("execveat", SYS_execveat, AT_FDCWD, word(argv[0]), word(argv), 0, 0);
  const auto end_child = [](long pid) {
    if (pid == 0) raw(SYS_exit_group, 0);
  };
  end_child(attempt("fork", SYS_fork));
  end_child(attempt("vfork", SYS_vfork));
  end_child(attempt("clone", SYS_clone, SIGCHLD, 0, 0, 0, 0));
  end_child(
      attempt("clone_thread", SYS_clone, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, 0, 0, 0, 0));
  // One flag more or less than a thread of the C library's.
  constexpr uint64_t kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                               CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
                               CLONE_CHILD_CLEARTID;
  for (int bit = 0; bit < 64; bit++) {
    char name[32];
    snprintf(name, sizeof name, "clone_but_%d", bit);
    end_child(attempt(name, SYS_clone, kThread ^ uint64_t{1} << bit, 0, 0, 0, 0));
  }
  struct clone_args_ {
    uint64_t words[11];
  } args{};
  args.words[4] = SIGCHLD;
  end_child(attempt("clone3", SYS_clone3, word(&args), sizeof args));
  attempt("unshare", SYS_unshare, CLONE_NEWUSER);
  attempt("setns", SYS_setns, 3, 0);
  attempt("setuid", SYS_setuid, 0);
  attempt("setresuid", SYS_setresuid, 0, 0, 0);
  attempt("capset", SYS_capset, 0, 0);
  attempt("setsid", SYS_setsid);
  for (const int option :
       {PR_SET_DUMPABLE, PR_SET_PDEATHSIG, PR_SET_PTRACER, PR_SET_MM, PR_SET_NAME, PR_SET_SECCOMP,
        PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER, 59}) {
    char name[32];
    snprintf(name, sizeof name, "prctl_%d", option);
    attempt(name, SYS_prctl, option, 0, 0, 0, 0);
  }
}

void Attacker::own_memory() {
  if (!confined_) return;
  constexpr uint64_t kPage = 4096;
  attempt("mmap_exec", SYS_mmap, 0, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
          0);
  attempt("mmap_rwx", SYS_mmap, 0, kPage, PROT_READ | PROT_WRITE | PROT_EXEC,
          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  attempt("mmap_exec_upper", SYS_mmap, 0, kPage, uint64_t{1} << 32 | PROT_EXEC,
          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const long page =
      raw(SYS_mmap, 0, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~0ull, 0);
  attempt("mprotect_exec", SYS_mprotect, page, kPage, PROT_READ | PROT_EXEC);
  attempt("pkey_mprotect", SYS_pkey_mprotect, page, kPage, PROT_READ | PROT_EXEC, -1);
  // What is readable would be executable from here on.
  attempt("personality", SYS_personality, 0x0400000);
  raw(SYS_munmap, static_cast<uint64_t>(page), kPage);
  attempt("remap_file_pages", SYS_remap_file_pages, 0, 0, 0, 0, 0);
  attempt("shmget", SYS_shmget, 1, kPage, 0600);
  attempt("shmat", SYS_shmat, 0, 0, 0);
  attempt("msgget", SYS_msgget, 1, 0);
  attempt("semget", SYS_semget, 1, 1, 0);
  attempt("mq_open", SYS_mq_open, word("x"), O_RDWR);
  attempt("userfaultfd", SYS_userfaultfd, 0);
  attempt("memfd_secret", 447, 0);
  attempt("modify_ldt", SYS_modify_ldt, 0, 0, 0);
  attempt("arch_prctl", SYS_arch_prctl, 0x1003, word(&report_));
  // A signal handler of choice, for a signal that the kernel sends.
  attempt("rt_sigaction", SYS_rt_sigaction, SIGSYS, 0,
          word(report_.text + sizeof report_.text - 160), 8);
}

void Attacker::kernel_interfaces() {
  if (!confined_) return;
  io_uring_params ring{};
  attempt("io_uring_setup", SYS_io_uring_setup, 1, word(&ring));
  attempt("io_uring_enter", SYS_io_uring_enter, 3, 1, 0, 0, 0, 0);
  attempt("io_uring_register", SYS_io_uring_register, 3, 0, 0, 0);
  char attr[128] = {};
  attempt("bpf", SYS_bpf, 0, word(attr), sizeof attr);
  attempt("keyctl", SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1);
  attempt("add_key", SYS_add_key, word("user"), word("x"), word("y"), 1, KEY_SPEC_USER_KEYRING);
  attempt("request_key", SYS_request_key, word("user"), word("x"), 0, 0);
  attempt("seccomp", SYS_seccomp, 0, 0, 0);
  attempt("landlock_create_ruleset", 444, 0, 0, 1);
  attempt("reboot_nothing", SYS_reboot, 0, 0, 0, 0);
  attempt("kexec_load", SYS_kexec_load, 0, 0, 0, 0);
  attempt("init_module", SYS_init_module, 0, 0, 0);
  attempt("finit_module", SYS_finit_module, 0, 0, 0);
  attempt("syslog", SYS_syslog, 3, word(attr), sizeof attr);
  attempt("sethostname", SYS_sethostname, word("x"), 1);
  attempt("clock_settime", SYS_clock_settime, CLOCK_REALTIME, 0);
  attempt("adjtimex", SYS_adjtimex, word(attr));
  attempt("iopl", SYS_iopl, 3);
  attempt("ioperm", SYS_ioperm, 0, 1, 1);
  attempt("quotactl", SYS_quotactl, 0, 0, 0, 0);
  attempt("ustat", SYS_ustat, 0, 0);
  attempt("vhangup", SYS_vhangup);
  attempt("pivot_root", SYS_pivot_root, word("/"), word("/"));
  attempt("lookup_dcookie", SYS_lookup_dcookie, 0, 0, 0);
}

// Numbers that the filter lets through with some arguments: they are tried by name above. Whatever
// else there is, also what comes with newer kernels, must be refused; so must all numbers of the
// x32 table.
constexpr long kLetThrough[] = {
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_pwritev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_lseek,
    SYS_fstat,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_close,
    SYS_memfd_create,
    SYS_fcntl,
    SYS_epoll_wait,
    SYS_epoll_ctl,
    SYS_poll,
    SYS_timerfd_settime,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_recvfrom,
    SYS_shutdown,
    SYS_waitid,
    SYS_sendto,
    SYS_ioctl,
    SYS_mmap,
    SYS_mprotect,
    SYS_munmap,
    SYS_mremap,
    SYS_brk,
    SYS_madvise,
    SYS_rseq,
    SYS_set_robust_list,
    SYS_futex,
    SYS_sched_yield,
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_exit,
    SYS_exit_group,
    SYS_getpid,
    SYS_gettid,
    SYS_restart_syscall,
    SYS_sigaltstack,
    SYS_tgkill,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_getrandom,
    SYS_sched_getaffinity,
    SYS_uname,
    SYS_sysinfo,
    // Platform ptrace only; for trap they are tried by name.
    SYS_ptrace,
    SYS_rt_sigtimedwait,
    // uretprobe, uprobe: newer kernels pass them by every filter; SIGILL where no probe is set.
    335,
    336,
};
void Attacker::every_number() {
  if (!confined_) return;
  char name[32];
  for (long nr = 0; nr < 1024; nr++) {
    if (std::find(std::begin(kLetThrough), std::end(kLetThrough), nr) == std::end(kLetThrough)) {
      snprintf(name, sizeof name, "number_%ld", nr);
      attempt(name, nr, 0, 0, 0, 0, 0, 0);
    }
    snprintf(name, sizeof name, "x32_%ld", nr);
    attempt(name, 0x40000000 | nr, 0, 0, 0, 0, 0, 0);
  }
  attempt("number_minus_1", -1);
  attempt("number_far", 0x7fffffff);
  // The upper half of the number does not count for the kernel (it is the 32-bit number that is
  // dispatched).
  attempt("number_upper", static_cast<long>(uint64_t{1} << 32 | SYS_openat), AT_FDCWD,
          word(t_.file), O_RDONLY);
}

}  // namespace

void run_attacks(const Target& target, bool confined, Report& report) {
  attacking = true;
  Attacker a(target, confined, report);
  a.files();
  a.memory_of_others();
  a.other_processes();
  a.sockets();
  a.descriptors();
  a.new_processes();
  a.own_memory();
  a.kernel_interfaces();
  a.every_number();
  a.signals();
  attacking = false;
}

}  // namespace posture
