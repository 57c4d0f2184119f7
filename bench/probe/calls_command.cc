// bench_probe calls --start PATH --out PATH [--last N]: makes every system call once, with
// arguments that no call can do anything with, and writes a line "NUMBER OUTCOME" for each. The
// host watches meanwhile.
//
// The first five arguments are -1: no such descriptor, address, process, flag or operation. The
// sixth is kCallMark, by which the host tells these calls from all others: its tracepoint shows six
// registers whatever the call takes. Each number has a child of its own, with a watchdog, because
// some calls end, block or duplicate their caller.
//
// OUTCOME: what the call returned, "signal N" if that ended the child, "blocked" if the watchdog
// did, "ended" if the child ended by itself.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/probe/commands.h"

namespace uks::bench {

namespace {

constexpr unsigned long kCallMark = 0x5eedca11;
constexpr int kLastNumber = 479;

// Inline, because after vfork() the child writes over the frames below the caller's.
[[gnu::always_inline]] inline long raw_call(long number) {
  long result = number;
  register unsigned long fourth __asm__("r10") = ~0UL;
  register unsigned long fifth __asm__("r8") = ~0UL;
  register unsigned long sixth __asm__("r9") = kCallMark;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(~0UL), "S"(~0UL), "d"(~0UL), "r"(fourth), "r"(fifth), "r"(sixth)
                   : "rcx", "r11", "memory");
  return result;
}

// A page shared with the child: what it got. vfork and clone may return twice into it; the first
// answer counts.
struct Answer {
  volatile long value;
  volatile int given;
};

std::string try_number(int number, Answer* answer) {
  answer->given = 0;
  const pid_t child = fork();
  if (child < 0) {
    return std::string("fork: ") + std::strerror(errno);
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();  // vhangup() then has no terminal to hang up
    const long value = raw_call(number);
    if (number == SYS_msgget && value >= 0) {
      msgctl(static_cast<int>(value), IPC_RMID, nullptr);  // -1 is a key like any other
    }
    if (answer->given == 0) {
      answer->value = value;
      answer->given = 1;
    }
    _exit(0);
  }
  int status = 0;
  for (int waited = 0;; ++waited) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) {
      break;
    }
    if (waited == 300) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return answer->given != 0 ? std::to_string(answer->value) : "blocked";
    }
    usleep(waited < 50 ? 200 : 2000);
  }
  if (answer->given != 0) {
    return std::to_string(answer->value);
  }
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : "ended";
}

}  // namespace

int calls_command(int argc, char** argv) {
  const char* start = nullptr;
  const char* out = nullptr;
  int last = kLastNumber;
  for (int i = 0; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--start") == 0) {
      start = argv[i + 1];
    } else if (std::strcmp(argv[i], "--out") == 0) {
      out = argv[i + 1];
    } else if (std::strcmp(argv[i], "--last") == 0) {
      last = std::atoi(argv[i + 1]);
    }
  }
  if (start == nullptr || out == nullptr) {
    std::fprintf(stderr, "usage: bench_probe calls --start PATH --out PATH [--last N]\n");
    return 2;
  }
  leave_guest_mark();
  // The host watches within two seconds after the file appears. It cannot answer: what it does to
  // files is not seen by a sandbox that believes its work directory to be its own.
  const int ready = open(start, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
  std::FILE* lines = std::fopen(out, "we");
  if (ready < 0 || lines == nullptr) {
    std::perror("bench_probe calls");
    return 1;
  }
  close(ready);
  usleep(2'000'000);
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    std::perror("bench_probe calls: mmap");
    return 1;
  }
  signal(SIGHUP, SIG_IGN);
  const rlimit no_cores{};
  setrlimit(RLIMIT_CORE, &no_cores);
  for (int number = 0; number <= last; ++number) {
    std::fprintf(lines, "%d %s\n", number, try_number(number, static_cast<Answer*>(page)).c_str());
    std::fflush(lines);
  }
  std::fprintf(lines, "end\n");
  return std::fclose(lines) == 0 ? 0 : 1;
}

}  // namespace uks::bench
