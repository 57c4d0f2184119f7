// Runs one hostile case in a sandbox: a bystander is started first, then the case in a process of
// its own; the case must end as it says and the bystander go on with right results.
//
//   hostile_tests --outside UKS CASE [ROUNDS]   as ctest does: starts the sandbox and measures its
//   sentry hostile_tests CASE                          inside, once hostile_tests --list
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/hostile/baseline.h"
#include "tests/hostile/hostile.h"

namespace hostile {
namespace {

const Case* cases;
// Rounds are repeated for so long, at most so often.
constexpr int64_t kRoundsMs = 600;
constexpr unsigned kMaxRounds = 30;

int64_t now_ms() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1000 + ts.tv_nsec / 1'000'000;
}
void sleep_ms(int ms) { poll(nullptr, 0, ms); }

// What the bystander tells the runner.
struct Report {
  std::atomic<uint64_t> rounds;
  std::atomic<int> wrong_line;  // of this file, where a result was wrong
  // The runner wants it to rest between two rounds, with nothing begun; and it does.
  std::atomic<bool> to_rest, rests;
};

// Ordinary work, each result checked: identity, a pipe, a file, a child.
[[noreturn]] void be_bystander(Report* report, pid_t parent) {
#define EXPECT_THAT(condition)     \
  if (!(condition)) {              \
    report->wrong_line = __LINE__; \
    _exit(1);                      \
  }
  int ends[2];
  EXPECT_THAT(pipe(ends) == 0);
  const pid_t self = getpid();
  for (uint64_t round = 0;; round++) {
    EXPECT_THAT(getppid() == parent);
    EXPECT_THAT(syscall(SYS_getpid) == self);
    uint64_t back = 0;
    EXPECT_THAT(write(ends[1], &round, sizeof round) == sizeof round);
    EXPECT_THAT(read(ends[0], &back, sizeof back) == sizeof back && back == round);
    EXPECT_THAT(close(-1) == -1);
    if (round % 64 == 0) {
      const int code = static_cast<int>(round / 64 % 100);
      const pid_t child = fork();
      if (child == 0) _exit(code);
      int status = 0;
      EXPECT_THAT(child > 0);
      EXPECT_THAT(waitpid(child, &status, 0) == child);
      EXPECT_THAT(WIFEXITED(status) && WEXITSTATUS(status) == code);
    }
    report->rounds = round + 1;
    while (report->to_rest) {
      report->rests = true;
      sleep_ms(1);
    }
    report->rests = false;
  }
#undef EXPECT_THAT
}

bool bystander_goes_on(Report* report, const char* when) {
  const uint64_t before = report->rounds;
  const int64_t deadline = now_ms() + 5000;
  while (report->rounds < before + 200) {
    if (report->wrong_line) {
      dprintf(2, "%s: the bystander got a wrong result at line %d\n", when,
              report->wrong_line.load());
      return false;
    }
    if (now_ms() > deadline) {
      dprintf(2, "%s: the bystander stands still at %lu rounds\n", when, report->rounds.load());
      return false;
    }
    sleep_ms(2);
  }
  return true;
}

bool ended_as_said(const Case& c, int status, bool by_us) {
  switch (c.end) {
    case End::kReturns:
      return !by_us && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    case End::kKilled:
    case End::kKilledLate:
      return !by_us && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    case End::kAny:
      return !by_us;
    case End::kNever:
      return by_us && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }
  return false;
}

// What the kernel has of us, zombies included: /proc/loadavg counts the threads, /proc the
// processes.
struct Population {
  unsigned threads, processes;
  bool operator==(const Population&) const = default;
};
Population count_population() {
  Population found{};
  if (FILE* file = fopen("/proc/loadavg", "r")) {
    if (fscanf(file, "%*f %*f %*f %*u/%u", &found.threads) != 1) found.threads = 0;
    fclose(file);
  }
  if (DIR* dir = opendir("/proc")) {
    while (const dirent* entry = readdir(dir))
      found.processes += isdigit(static_cast<unsigned char>(entry->d_name[0])) != 0;
    closedir(dir);
  }
  return found;
}
// Orphans that were killed go soon.
bool population_returns(const Population& before) {
  for (const int64_t deadline = now_ms() + 10'000; !(count_population() == before); sleep_ms(10)) {
    if (now_ms() < deadline) continue;
    const Population left = count_population();
    dprintf(2, "%u threads and %u processes are left of %u and %u\n", left.threads, left.processes,
            before.threads, before.processes);
    return false;
  }
  return true;
}

void let_rest(Report* report) {
  report->to_rest = true;
  while (!report->rests && !report->wrong_line) sleep_ms(1);
}

// Somebody outside is to look at the sentry, now.
void have_measured(Report* report, const char* what) {
  let_rest(report);
  printf("%s\n", what);
  fflush(stdout);
  char answer;
  (void)!read(0, &answer, 1);
  report->to_rest = false;
}

// How many times longer than on an idle machine things take: its load for each processor (uks shows
// the host's).
double slowness() {
  double load = 0;
  if (getloadavg(&load, 1) != 1) return 1;
  return std::clamp(load / static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)), 1.0, 8.0);
}

bool run_round(const Case& c, Report* report) {
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    c.run();
    _exit(0);
  }
  setpgid(child, child);
  bool by_us = false;
  int status = 0;
  const int64_t patience = c.end == End::kNever        ? 1000
                           : c.end == End::kKilledLate ? kLatePatienceMs
                                                       : kPatienceMs;
  int64_t deadline = now_ms() + static_cast<int64_t>(static_cast<double>(patience) * slowness());
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (report->wrong_line) break;
    if (now_ms() > deadline) {
      if (by_us) {
        dprintf(2, "%s: not even kill(2) ends it\n", c.name);
        return false;
      }
      by_us = true;
      kill(child, SIGKILL);
      deadline = now_ms() + static_cast<int64_t>(2000 * slowness());
    }
    sleep_ms(1);
  }
  // Children that it has left behind are guests like any, and go on.
  kill(-child, SIGKILL);
  bool good = true;
  if (!ended_as_said(c, status, by_us)) {
    dprintf(2, "%s: ended with status %#x%s\n", c.name, static_cast<unsigned>(status),
            by_us ? " after our kill" : "");
    good = false;
  }
  return bystander_goes_on(report, "afterwards") && good;
}

// `min_rounds` 0: one round, nobody measures.
int run(const Case& c, unsigned min_rounds) {
  auto* report = static_cast<Report*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (report == MAP_FAILED) fail("no shared memory");
  const pid_t self = getpid();
  const pid_t bystander = fork();
  if (bystander == 0) be_bystander(report, self);
  if (bystander < 0 || !bystander_goes_on(report, "before")) return 1;
  if (min_rounds > 0) have_measured(report, kBefore);
  let_rest(report);
  const Population before = count_population();
  report->to_rest = false;
  bool good = run_round(c, report);
  if (min_rounds > 0) {
    have_measured(report, kBase);
    const int64_t end = now_ms() + kRoundsMs;
    for (unsigned i = 0; good && (i < min_rounds || (i < kMaxRounds && now_ms() < end)); i++)
      good = run_round(c, report);
    let_rest(report);
    good = population_returns(before) && good;
    have_measured(report, kAfter);
  }
  kill(bystander, SIGKILL);
  int status = 0;
  waitpid(bystander, &status, 0);
  // And the sandbox as a whole still starts programs.
  const pid_t last = fork();
  if (last == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(127);
  }
  if (waitpid(last, &status, 0) != last || status != 0) {
    dprintf(2, "%s: no program can be run afterwards: %#x\n", c.name,
            static_cast<unsigned>(status));
    good = false;
  }
  printf("%s %s\n", good ? "PASS" : "FAIL", c.name);
  return good ? 0 : 1;
}

}  // namespace

Register::Register(const char* name, End end, Function run) : entry_{name, end, run, cases} {
  cases = &entry_;
}
const Case* first_case() { return cases; }

void fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  vdprintf(2, format, args);
  va_end(args);
  dprintf(2, "\n");
  _exit(1);
}

}  // namespace hostile

int main(int argc, char** argv) {
  const bool list = argc == 2 && strcmp(argv[1], "--list") == 0;
  const bool outside = argc >= 4 && strcmp(argv[1], "--outside") == 0;
  const bool rounds = argc == 4 && strcmp(argv[1], "--rounds") == 0;  // under --outside
  if (!list && !outside && !rounds && argc != 2) {
    fprintf(stderr, "usage: %s --list | --outside UKS CASE [ROUNDS] | CASE\n", argv[0]);
    return 2;
  }
  const char* name = argv[outside || rounds ? 3 : 1];
  for (const hostile::Case* c = hostile::first_case(); c; c = c->next) {
    if (list) {
      puts(c->name);
    } else if (strcmp(name, c->name) == 0) {
      if (outside) {
        const int count = argc > 4 ? atoi(argv[4]) : 1;
        return hostile::run_outside(argv[2], argv[0], name, static_cast<unsigned>(count));
      }
      return hostile::run(*c, rounds ? static_cast<unsigned>(atoi(argv[2])) : 0);
    }
  }
  return list ? 0 : 2;
}
