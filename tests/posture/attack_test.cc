// A taken-over sentry against a bystander with the same user id: whom it cannot read, write or
// signal; and what else it cannot do.
//
//   attack_tests CASE ATTACKED_UKS     CASE: trap, ptrace, trap_user, ptrace_user,
//   trap_without_landlock, ptrace_…,
//                                      int80 (of another architecture),
//                                      unconfined (the attacks work where nothing confines)
//   attack_tests --guest OP            inside: asks the sentry to attack
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "tests/posture/attacks.h"

namespace posture {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kUser =
    64'990;  // an ordinary user that owns nothing; unassigned (Debian policy 9.2.2)
constexpr int kUrgent = SIGURG;

int failures = 0;
void complain(const char* format, ...) __attribute__((format(printf, 1, 2)));
void complain(const char* format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  failures++;
}
[[noreturn]] void give_up(const char* what) {
  perror(what);
  exit(1);
}
#define MUST(condition)                    \
  do {                                     \
    if (!(condition)) give_up(#condition); \
  } while (0)

// ---- The bystander

// Shared by the bystander and the test, and nobody else.
struct Diary {
  std::atomic<uint64_t> ticks;
  std::atomic<uint32_t> signals[65];
  std::atomic<uint32_t> messages, connections;
  std::atomic<bool> ready, to_look, looked, secret_unchanged;
  Target target;  // its part
};
Diary* diary;

constexpr char kFileText[] = "for the bystander's user only\n";

int bound_socket(int type, const char* path, const char* abstract) {
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t size = sizeof address;
  if (path) {
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  } else {
    strncpy(address.sun_path + 1, abstract, sizeof address.sun_path - 2);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + strlen(abstract));
  }
  MUST(fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  return fd;
}

[[noreturn]] void be_bystander(uid_t uid, const fs::path& folder) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (geteuid() != uid) {
    MUST(setgroups(0, nullptr) == 0 && setresgid(uid, uid, uid) == 0 &&
         setresuid(uid, uid, uid) == 0);
  }
  // As easy to attack as a process can be: Yama, where it is there, lets everybody near.
  prctl(PR_SET_DUMPABLE, 1);
  prctl(PR_SET_PTRACER, -1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int signo = 1; signo <= 64; signo++) {
    struct sigaction action{};
    action.sa_handler = [](int s) { diary->signals[s]++; };
    sigaction(signo, &action, nullptr);
  }
  char* secret = static_cast<char*>(malloc(kSecretSize));
  char original[kSecretSize];
  MUST(getentropy(original, sizeof original) == 0);
  memcpy(secret, original, sizeof original);

  Target& t = diary->target;
  t.pid = getpid();
  t.tid = static_cast<int32_t>(syscall(SYS_gettid));
  t.secret = reinterpret_cast<uint64_t>(secret);
  const auto name = [&](char* to, size_t size, const char* what) {
    const std::string path = folder / what;
    MUST(path.size() < size);
    memcpy(to, path.c_str(), path.size() + 1);
  };
  name(t.file, sizeof t.file, "file");
  name(t.stream, sizeof t.stream, "stream");
  name(t.datagram, sizeof t.datagram, "datagram");
  snprintf(t.abstract, sizeof t.abstract, "uks-bystander-%d", t.pid);
  const int file = open(t.file, O_CREAT | O_EXCL | O_WRONLY, 0600);
  MUST(file >= 0 && write(file, kFileText, sizeof kFileText - 1) == sizeof kFileText - 1);
  close(file);
  const int stream = bound_socket(SOCK_STREAM, t.stream, nullptr);
  MUST(listen(stream, 8) == 0);
  const int by_path = bound_socket(SOCK_DGRAM, t.datagram, nullptr);
  const int abstract = bound_socket(SOCK_DGRAM, nullptr, t.abstract);
  const int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  MUST(udp >= 0 && bind(udp, reinterpret_cast<sockaddr*>(&address), size) == 0);
  MUST(getsockname(udp, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  t.udp_port = ntohs(address.sin_port);
  diary->ready = true;
  for (;; diary->ticks++) {
    pollfd fds[] = {
        {stream, POLLIN, 0}, {by_path, POLLIN, 0}, {abstract, POLLIN, 0}, {udp, POLLIN, 0}};
    poll(fds, 4, 2);
    char buffer[64];
    for (int i = 1; i < 4; i++) {
      if ((fds[i].revents & POLLIN) && recv(fds[i].fd, buffer, sizeof buffer, MSG_DONTWAIT) >= 0)
        diary->messages++;
    }
    if (fds[0].revents & POLLIN) {
      const int peer = accept4(stream, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (peer >= 0) diary->connections++, close(peer);
    }
    if (diary->to_look && !diary->looked) {
      diary->secret_unchanged = memcmp(secret, original, sizeof original) == 0;
      diary->looked = true;
    }
  }
}

void wait_for(const char* what, const std::function<bool()>& condition) {
  for (int i = 0; i < 10'000; i++) {
    if (condition()) return;
    poll(nullptr, 0, 1);
  }
  fprintf(stderr, "no %s\n", what);
  exit(1);
}

pid_t start_bystander(uid_t uid, const fs::path& folder) {
  diary = static_cast<Diary*>(
      mmap(nullptr, sizeof(Diary), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  MUST(diary != MAP_FAILED);
  fs::create_directory(folder);
  MUST(chmod(folder.c_str(), 0700) == 0 &&
       (geteuid() != 0 || chown(folder.c_str(), uid, uid) == 0));
  const pid_t pid = fork();
  if (pid == 0) be_bystander(uid, folder);
  wait_for("bystander", [] { return diary->ready.load(); });
  return pid;
}

// Whether it is as if nothing had been.
void check_bystander(pid_t pid, bool may_have_urgent) {
  diary->to_look = true;
  const uint64_t before = diary->ticks;
  for (int i = 0; i < 5000 && !(diary->looked && diary->ticks > before + 3); i++)
    poll(nullptr, 0, 1);
  int status = 0;
  if (waitpid(pid, &status, WNOHANG) == pid)
    return complain("the bystander ended with status %#x", static_cast<unsigned>(status));
  if (!diary->looked || diary->ticks <= before) complain("the bystander stands still");
  if (!diary->secret_unchanged) complain("the bystander's memory was written to");
  if (diary->messages) complain("the bystander was sent %u messages", diary->messages.load());
  if (diary->connections)
    complain("the bystander was connected to %u times", diary->connections.load());
  for (int signo = 1; signo <= 64; signo++) {
    const uint32_t count = diary->signals[signo];
    if (count && !(signo == kUrgent && may_have_urgent))
      complain("the bystander got signal %d, %u times", signo, count);
  }
  std::ifstream file(diary->target.file);
  std::stringstream text;
  text << file.rdbuf();
  struct stat s;
  if (text.str() != kFileText || stat(diary->target.file, &s) != 0 || (s.st_mode & 07777) != 0600) {
    complain("the bystander's file was changed");
  }
}

// ---- The guest

int be_guest(uint64_t op) {
  puts("up");
  fflush(stdout);
  static Target target;
  if (fread(&target, sizeof target, 1, stdin) != 1) return 1;
  static char report[200'000];
  memset(report, 0, sizeof report);
  target.report = reinterpret_cast<uint64_t>(report);
  target.report_size = sizeof report;
  const long n = syscall(kAttackCall, &target, op);
  if (n < 0) {
    perror("the attack");
    return 1;
  }
  fwrite(report, static_cast<size_t>(n), 1, stdout);
  puts("end");
  return 0;
}

struct Sandbox {
  pid_t keeper = 0, sentry = 0, gofer = 0;
  uid_t uid = 0;
  int in = -1;
  FILE* out = nullptr;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
uint64_t status_of(pid_t pid, const char* name) {
  const std::string text = text_of("/proc/" + std::to_string(pid) + "/status");
  const size_t at = text.find("\n" + std::string(name) + ":");
  return at == std::string::npos ? ~0ull
                                 : strtoull(text.c_str() + at + strlen(name) + 2, nullptr, 10);
}

std::string next_line(FILE* file) {
  char* text = nullptr;
  size_t room = 0;
  const ssize_t n = getline(&text, &room, file);
  std::string line = n > 0 ? std::string(text, static_cast<size_t>(n - 1)) : "";
  free(text);
  return line;
}

Sandbox start_sandbox(const fs::path& stage, const char* platform, const char* op,
                      const char* features) {
  int in[2], out[2];
  MUST(pipe(in) == 0 && pipe(out) == 0);
  Sandbox box;
  const fs::path folder = stage / "project";
  fs::create_directory(folder);
  box.keeper = fork();
  if (box.keeper == 0) {
    dup2(in[0], 0), dup2(out[1], 1);
    for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
    if (*features) setenv("UKS_FEATURES", features, 1);
    setenv("HOME", stage.c_str(), 1);
    MUST(chdir(folder.c_str()) == 0);
    const std::string uks = stage / "uks", guest = stage / "guest";
    execl(uks.c_str(), "uks", "exec", "--platform", platform, "--ro", stage.c_str(), "--",
          guest.c_str(), "--guest", op, static_cast<char*>(nullptr));
    _exit(127);
  }
  close(in[0]), close(out[1]);
  box.in = in[1];
  box.out = fdopen(out[0], "r");
  if (next_line(box.out) != "up") {
    fprintf(stderr, "the sandbox did not start\n");
    exit(1);
  }
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!isdigit(static_cast<unsigned char>(name[0]))) continue;
    const pid_t pid = atoi(name.c_str());
    if (status_of(pid, "PPid") != static_cast<uint64_t>(box.keeper)) continue;
    const std::string comm = text_of(entry.path() / "comm");
    if (comm == "uks-sentry\n") box.sentry = pid;
    if (comm == "uks-gofer\n") box.gofer = pid;
  }
  if (box.sentry == 0) {
    fprintf(stderr, "the sentry was not found\n");
    exit(1);
  }
  box.uid = static_cast<uid_t>(status_of(box.sentry, "Uid"));
  return box;
}

using Verdicts = std::map<std::string, std::string>;
Verdicts read_verdicts(FILE* file) {
  Verdicts verdicts;
  for (std::string line = next_line(file); !line.empty() && line != "end"; line = next_line(file)) {
    const size_t blank = line.rfind(' ');
    verdicts[line.substr(0, blank)] = line.substr(blank + 1);
  }
  return verdicts;
}

// ---- The cases

// What may come of an attempt. Whatever is not named here the filter must refuse.
bool is_harmless(const std::string& name, const std::string& verdict, bool ptrace_platform) {
  const long result = verdict == "filter" ? 0 : atol(verdict.c_str());
  const auto starts = [&](const char* prefix) { return name.starts_with(prefix); };
  // The keeper says no, to every request.
  if (starts("keeper_")) return result < 0;
  if (verdict == "filter") return true;
  // A kick, which every process ignores; 0 where Landlock does not keep signals in (before its
  // interface 6).
  if (name == "tgkill_" + std::to_string(kUrgent)) return result == 0 || result == -EPERM;
  // As if the kernel had none: so the C library uses clone, whose flags the filter sees.
  if (name == "clone3" || name == "number_" + std::to_string(SYS_clone3)) return result == -ENOSYS;
  // Not a child.
  if (name == "waitid_pid") return result == -ECHILD;
  // Any process may be asked for these: which processors, how much time.
  if (name == "sched_getaffinity") return result > 0;
  if (name == "clock_gettime_cpu") return result == 0;
  // The filter sees no address; the bystander says whether something came.
  if (starts("sendmsg_")) return true;
  // No tracee of ours.
  if (ptrace_platform) {
    for (const char* request :
         {"cont", "syscall", "listen", "getregs", "setregs", "peekdata", "pokedata"}) {
      if (name == std::string("ptrace_") + request) return result == -ESRCH;
    }
  }
  return false;
}

void copy_program(const fs::path& from, const fs::path& to) {
  fs::copy_file(from, to);
  fs::permissions(to, fs::perms(0755));
}

// A folder for this run; everybody may read it, whoever runs the sandbox owns it.
fs::path make_stage(const char* uks) {
  char name[] = "/var/tmp/uks-attack-XXXXXX";
  MUST(mkdtemp(name) != nullptr && chmod(name, 0755) == 0);
  copy_program(uks, fs::path(name) / "uks");
  copy_program("/proc/self/exe", fs::path(name) / "guest");
  return name;
}

void become_user(const fs::path& stage) {
  if (geteuid() != 0) return;
  MUST(chown(stage.c_str(), kUser, kUser) == 0);
  MUST(setgroups(0, nullptr) == 0 && setresgid(kUser, kUser, kUser) == 0 &&
       setresuid(kUser, kUser, kUser) == 0);
  prctl(PR_SET_DUMPABLE, 1);
}

void attack(const fs::path& stage, const char* platform, const char* features) {
  Sandbox box = start_sandbox(stage, platform, "0", features);
  if (box.uid == 0) complain("the sentry is root");
  const pid_t bystander = start_bystander(box.uid, stage / "bystander");
  Target target = diary->target;
  target.keeper = box.keeper;
  target.gofer = box.gofer;
  MUST(write(box.in, &target, sizeof target) == sizeof target);
  const Verdicts verdicts = read_verdicts(box.out);
  int status = 0;
  waitpid(box.keeper, &status, 0);
  if (status != 0) complain("the sandbox ended with status %#x", static_cast<unsigned>(status));
  const bool ptrace_platform = strcmp(platform, "ptrace") == 0;
  size_t by_filter = 0;
  for (const auto& [name, verdict] : verdicts) {
    by_filter += verdict == "filter";
    if (getenv("UKS_SHOW_VERDICTS") && verdict != "filter")
      printf("%s %s\n", name.c_str(), verdict.c_str());
    if (!is_harmless(name, verdict, ptrace_platform))
      complain("%s: %s", name.c_str(), verdict.c_str());
  }
  // 1,024 numbers twice, and what is tried by name.
  if (verdicts.size() < 2500) complain("only %zu attempts were made", verdicts.size());
  if (!verdicts.contains("keeper_afterwards")) complain("the keeper did not answer");
  check_bystander(bystander, true);
  const uint32_t urgent = diary->signals[kUrgent];
  kill(bystander, SIGKILL);
  printf(
      "%zu attempts, %zu of them refused by the filter; tgkill(SIGURG) gave %s, arrived %u times\n",
      verdicts.size(), by_filter,
      verdicts.contains("tgkill_23") ? verdicts.at("tgkill_23").c_str() : "nothing", urgent);
}

// Another architecture's calls kill the sentry; the bystander is none the wiser.
void attack_by_int80(const fs::path& stage) {
  Sandbox box = start_sandbox(stage, "trap", "1", "");
  const pid_t bystander = start_bystander(box.uid, stage / "bystander");
  MUST(write(box.in, &diary->target, sizeof(Target)) == sizeof(Target));
  int status = 0;
  waitpid(box.keeper, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 125)
    complain("the sandbox ended with status %#x", static_cast<unsigned>(status));
  check_bystander(bystander, false);
  kill(bystander, SIGKILL);
}

// Without confinement the same attempts work: the test can fail.
void attack_unconfined(const fs::path& stage) {
  const pid_t bystander = start_bystander(geteuid(), stage / "bystander");
  // A pair like those that the sentry has, but of datagrams.
  int pair[2];
  MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
  const int udp = socket(AF_INET, SOCK_DGRAM, 0);
  static Report report;
  run_attacks(diary->target, false, report);
  FILE* text = fmemopen(report.text, static_cast<size_t>(report.used), "r");
  const Verdicts verdicts = read_verdicts(text);
  const std::string by_path = "sendmsg_path_" + std::to_string(pair[0]),
                    by_udp = "sendmsg_udp_" + std::to_string(udp);
  const std::string abstract = "sendmsg_abstract_" + std::to_string(pair[0]);
  for (const std::string& name : {std::string("open"),
                                  std::string("openat"),
                                  std::string("openat2"),
                                  std::string("creat"),
                                  std::string("open_proc_mem"),
                                  std::string("open_proc_mem_rw"),
                                  std::string("process_vm_readv"),
                                  std::string("ptrace_seize"),
                                  std::string("kill_40"),
                                  std::string("tkill_40"),
                                  std::string("tgkill_40"),
                                  std::string("rt_sigqueueinfo_40"),
                                  std::string("rt_tgsigqueueinfo_40"),
                                  std::string("pidfd_open"),
                                  std::string("pidfd_send_signal"),
                                  std::string("socket_unix"),
                                  std::string("prlimit64_get"),
                                  by_path,
                                  abstract,
                                  by_udp}) {
    const auto found = verdicts.find(name);
    if (found == verdicts.end() || found->second == "filter" || atol(found->second.c_str()) < 0) {
      complain("%s does not even work without confinement: %s", name.c_str(),
               found == verdicts.end() ? "not tried" : found->second.c_str());
    }
  }
  wait_for("signals and messages",
           [] { return diary->signals[kQueued] >= 6 && diary->messages >= 3; });
  kill(bystander, SIGKILL);
}

int run_case(const std::string& name, const char* uks) {
  const fs::path stage = make_stage(uks);
  const pid_t child = fork();
  if (child == 0) {
    if (name.ends_with("_user")) become_user(stage);
    if (name.starts_with("trap") || name.starts_with("ptrace")) {
      attack(stage, name.starts_with("trap") ? "trap" : "ptrace",
             name.ends_with("_without_landlock") ? "-landlock" : "");
    } else if (name == "int80") {
      attack_by_int80(stage);
    } else if (name == "unconfined") {
      become_user(stage);
      attack_unconfined(stage);
    } else {
      complain("no such case");
    }
    fflush(stdout);
    _exit(failures == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  fs::remove_all(stage);
  printf("%s %s\n", status == 0 ? "PASS" : "FAIL", name.c_str());
  return status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace posture

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  if (argc == 3 && strcmp(argv[1], "--guest") == 0)
    return posture::be_guest(strtoull(argv[2], nullptr, 10));
  if (argc == 3) return posture::run_case(argv[1], argv[2]);
  fprintf(stderr, "usage: %s CASE ATTACKED_UKS\n", argv[0]);
  return 2;
}
