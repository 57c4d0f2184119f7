// Clocks, sleeping, interval timers.
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>

#include <cstdio>
#include <cstring>

#include <thread>

#include "tests/syscalls/test_util.h"

namespace {

TEST(Clock, AdvancesAndAgrees) {
  for (clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME,
                          CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_TAI}) {
    timespec a, b;
    ASSERT_OK(clock_gettime(clock, &a)) << clock;
    test::sleep_ms(15);
    ASSERT_OK(syscall(SYS_clock_gettime, clock, &b)) << clock;
    EXPECT_GT(b.tv_sec * 1'000'000'000 + b.tv_nsec, a.tv_sec * 1'000'000'000 + a.tv_nsec) << clock;
    EXPECT_LT(b.tv_sec - a.tv_sec, 5);
  }
}

TEST(Clock, VdsoAndSystemCallAgree) {
  for (clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME}) {
    for (int i = 0; i < 20; i++) {
      timespec a, b, c;
      clock_gettime(clock, &a);
      ASSERT_OK(syscall(SYS_clock_gettime, clock, &b));
      clock_gettime(clock, &c);
      auto ns = [](const timespec& t) { return t.tv_sec * 1'000'000'000 + t.tv_nsec; };
      EXPECT_LE(ns(a), ns(b)) << clock;
      EXPECT_LE(ns(b), ns(c)) << clock;
    }
  }
}

// What the vDSO cannot answer it asks the kernel, from its own text: with the numbers of this
// process.
TEST(Clock, TheVdsosOwnCallsAreAnswered) {
  clockid_t own;
  ASSERT_EQ(clock_getcpuclockid(getpid(), &own), 0);
  timespec a, b;
  ASSERT_OK(clock_gettime(own, &a));
  ASSERT_OK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b));
  EXPECT_LE(a.tv_sec * 1'000'000'000 + a.tv_nsec, b.tv_sec * 1'000'000'000 + b.tv_nsec);
}

// Its data pages are the host kernel's own: nobody writes them.
TEST(Clock, VvarIsReadOnly) {
  FILE* maps = fopen("/proc/self/maps", "r");
  ASSERT_TRUE(maps);
  char line[512];
  while (fgets(line, sizeof line, maps)) {
    if (!strstr(line, "[vvar")) continue;
    unsigned long from = 0, to = 0;
    char perms[5] = {};
    ASSERT_EQ(sscanf(line, "%lx-%lx %4s", &from, &to, perms), 3);
    EXPECT_STREQ(perms, "r--p");
    EXPECT_ERRNO(mprotect(reinterpret_cast<void*>(from), to - from, PROT_READ | PROT_WRITE),
                 EACCES);
  }
  fclose(maps);
}

TEST(Clock, MonotonicNeverGoesBack) {
  int64_t last = 0;
  for (int i = 0; i < 20'000; i++) {
    int64_t now = test::now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, CpuTime) {
  const int64_t process = test::now_ns(CLOCK_PROCESS_CPUTIME_ID);
  const int64_t thread = test::now_ns(CLOCK_THREAD_CPUTIME_ID);
  test::sleep_ms(30);
  EXPECT_LT(test::now_ns(CLOCK_PROCESS_CPUTIME_ID) - process, 25 * test::kMs);
  // Others may have the processor most of the time.
  const int64_t end = test::now_ns() + 10'000 * test::kMs;
  while (test::now_ns(CLOCK_PROCESS_CPUTIME_ID) - process < 20 * test::kMs &&
         test::now_ns() < end) {
  }
  EXPECT_GE(test::now_ns(CLOCK_PROCESS_CPUTIME_ID) - process, 20 * test::kMs);
  EXPECT_GE(test::now_ns(CLOCK_THREAD_CPUTIME_ID) - thread, 15 * test::kMs);
}

// A thread's own, whatever the others use.
TEST(Clock, ThreadCpuTimeOfAThread) {
  int64_t used = -1, idle = -1;
  const auto now = [] {
    timespec ts{};
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) == 0 ? ts.tv_sec * 1'000'000'000 + ts.tv_nsec
                                                            : -1;
  };
  std::thread([&] {
    while (now() >= 0 && now() < 20'000'000) {
    }
    used = now();
    std::thread([&] { idle = now(); }).join();
  }).join();
  EXPECT_GE(used, 20'000'000);
  EXPECT_GE(idle, 0);
  EXPECT_LT(idle, used);
}

TEST(Clock, Errors) {
  timespec ts;
  EXPECT_ERRNO(clock_gettime(static_cast<clockid_t>(77), &ts), EINVAL);
  EXPECT_ERRNO(syscall(SYS_clock_gettime, CLOCK_REALTIME, 8), EFAULT);
  EXPECT_OK(clock_getres(CLOCK_MONOTONIC, &ts));
  EXPECT_EQ(ts.tv_nsec, 1);
  EXPECT_OK(clock_getres(CLOCK_MONOTONIC, nullptr));
  EXPECT_ERRNO(clock_getres(static_cast<clockid_t>(77), &ts), EINVAL);
  ts = {1, 0};
  if (geteuid() != 0) EXPECT_ERRNO(clock_settime(CLOCK_REALTIME, &ts), EPERM);
  EXPECT_ERRNO(clock_settime(CLOCK_MONOTONIC, &ts), EINVAL);
}

// CPU clock ids as the kernel makes them: ~pid << 3 | 4 for a thread | kind.
clockid_t cpu_clock(pid_t pid, int kind) {
  return static_cast<clockid_t>(~static_cast<unsigned>(pid) << 3 | static_cast<unsigned>(kind));
}
constexpr int kProf = 0, kVirt = 1, kSched = 2, kThread = 4;

struct ClockAnswers {
  int get, sleep, set, adjust, timer;  // errno, 0: fine
};
int errno_of(long result) { return result < 0 ? errno : 0; }

void expect_answers(clockid_t clock, const ClockAnswers& want) {
  SCOPED_TRACE(clock);
  timespec ts{}, zero{};
  EXPECT_EQ(errno_of(syscall(SYS_clock_gettime, clock, &ts)), want.get);
  EXPECT_EQ(errno_of(syscall(SYS_clock_getres, clock, &ts)), want.get);
  EXPECT_EQ(errno_of(syscall(SYS_clock_getres, clock, nullptr)), want.get);
  EXPECT_EQ(errno_of(syscall(SYS_clock_nanosleep, clock, TIMER_ABSTIME, &zero, nullptr)),
            want.sleep);
  // A call that such a clock lacks is refused before its arguments are looked at.
  const timespec bad{0, -1};
  EXPECT_EQ(errno_of(syscall(SYS_clock_nanosleep, clock, 0, &bad, nullptr)),
            want.sleep == EOPNOTSUPP ? EOPNOTSUPP : EINVAL);
  EXPECT_EQ(errno_of(syscall(SYS_clock_settime, clock, &zero)), want.set);
  EXPECT_EQ(errno_of(syscall(SYS_clock_settime, clock, nullptr)), clock < 0 ? EFAULT : EINVAL);
  timex t{};
  EXPECT_EQ(errno_of(syscall(SYS_clock_adjtime, clock, &t)), want.adjust);
  sigevent none{};
  none.sigev_notify = SIGEV_NONE;
  int id = -1;
  EXPECT_EQ(errno_of(syscall(SYS_timer_create, clock, &none, &id)), want.timer);
  if (want.timer == 0) EXPECT_OK(syscall(SYS_timer_delete, id));
  none.sigev_notify = 77;
  EXPECT_EQ(errno_of(syscall(SYS_timer_create, clock, &none, &id)),
            want.timer == EOPNOTSUPP ? EOPNOTSUPP : EINVAL);
}

constexpr ClockAnswers kOwnThread{0, EINVAL, EPERM, EOPNOTSUPP, 0};
constexpr ClockAnswers kProcess{0, 0, EPERM, EOPNOTSUPP, 0};
constexpr ClockAnswers kNobody{EINVAL, EINVAL, EINVAL, EOPNOTSUPP, EINVAL};
constexpr ClockAnswers kFileClock{EINVAL, EOPNOTSUPP, EINVAL, EINVAL, EOPNOTSUPP};

TEST(Clock, CpuClocksOfThreadsAndProcesses) {
  const pid_t other = test::spawn([] { return pause(); });
  const pid_t gone = test::spawn([] { return 0; });
  test::wait_for(gone);
  expect_answers(CLOCK_PROCESS_CPUTIME_ID, {0, 0, EINVAL, EOPNOTSUPP, 0});
  expect_answers(CLOCK_THREAD_CPUTIME_ID, {0, EOPNOTSUPP, EINVAL, EOPNOTSUPP, 0});
  for (const int kind : {kProf, kVirt, kSched}) {
    for (const pid_t self : {0, getpid()}) {
      expect_answers(cpu_clock(self, kind), kProcess);
      expect_answers(cpu_clock(self, kind | kThread), kOwnThread);
    }
    expect_answers(cpu_clock(other, kind), kProcess);
    expect_answers(cpu_clock(other, kind | kThread), kNobody);  // no thread of ours
    expect_answers(cpu_clock(gone, kind), kNobody);
    expect_answers(cpu_clock(gone, kind | kThread), kNobody);
  }
  for (const pid_t pid : {0, getpid(), other, gone}) {
    expect_answers(cpu_clock(pid, 7), kNobody);     // no such kind
    expect_answers(cpu_clock(pid, 3), kFileClock);  // of a descriptor that is none
  }
  kill(other, SIGKILL);
  test::wait_for(other);
}

TEST(Clock, UnknownClocks) {
  for (const clockid_t clock : {10, 12, 13, 19, 100, INT32_MAX})
    expect_answers(clock, {EINVAL, EINVAL, EINVAL, EINVAL, EINVAL});
  expect_answers(-1, kNobody);
  expect_answers(INT32_MIN, kNobody);
  for (const clockid_t clock : {CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE})
    expect_answers(clock, {0, EOPNOTSUPP, EINVAL, EOPNOTSUPP, EOPNOTSUPP});
}

// User and system time together count in ticks, and so does user time alone.
TEST(Clock, CpuClockKinds) {
  timespec tick{}, ts{};
  ASSERT_OK(clock_getres(CLOCK_MONOTONIC_COARSE, &tick));
  for (const int kind : {kProf, kVirt}) {
    ASSERT_OK(clock_getres(cpu_clock(0, kind), &ts));
    EXPECT_EQ(ts.tv_nsec, tick.tv_nsec);
  }
  ASSERT_OK(clock_getres(cpu_clock(0, kSched), &ts));
  EXPECT_EQ(ts.tv_nsec, 1);
  const int64_t end = test::now_ns() + 10'000 * test::kMs;
  while (test::now_ns(cpu_clock(0, kVirt)) < 20 * test::kMs && test::now_ns() < end) {
  }
  const int64_t user = test::now_ns(cpu_clock(0, kVirt));
  EXPECT_GE(user, 20 * test::kMs);
  EXPECT_GE(test::now_ns(cpu_clock(0, kProf)), user);
}

TEST(Clock, TimeAndGettimeofdayAgree) {
  timeval tv;
  const time_t before = time(nullptr);
  ASSERT_OK(gettimeofday(&tv, nullptr));
  time_t stored = 0;
  const long now = syscall(SYS_time, &stored);
  EXPECT_EQ(now, stored);
  EXPECT_LE(before, tv.tv_sec);
  EXPECT_LE(tv.tv_sec, now + 1);
  ASSERT_OK(syscall(SYS_gettimeofday, &tv, nullptr));
  EXPECT_GE(tv.tv_sec, before);
}

TEST(Sleep, NanosleepWaitsLongEnough) {
  for (int ms : {1, 10, 50}) {
    timespec req{0, ms * test::kMs};
    const int64_t start = test::now_ns();
    EXPECT_OK(nanosleep(&req, nullptr));
    const int64_t took = test::now_ns() - start;
    EXPECT_GE(took, ms * test::kMs);
    EXPECT_LT(took, (ms + 1000) * test::kMs);
  }
}

TEST(Sleep, Errors) {
  timespec bad{0, 1'000'000'000}, negative{-1, 0}, zero{0, 0};
  EXPECT_ERRNO(nanosleep(&bad, nullptr), EINVAL);
  EXPECT_ERRNO(nanosleep(&negative, nullptr), EINVAL);
  EXPECT_ERRNO(syscall(SYS_nanosleep, 8, nullptr), EFAULT);
  EXPECT_OK(nanosleep(&zero, nullptr));
  EXPECT_EQ(clock_nanosleep(static_cast<clockid_t>(77), 0, &zero, nullptr), EINVAL);
  EXPECT_EQ(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &zero, nullptr), EINVAL);
}

TEST(Sleep, ClockNanosleepRelativeAndAbsolute) {
  timespec req{0, 20 * test::kMs};
  int64_t start = test::now_ns();
  EXPECT_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &req, nullptr), 0);
  EXPECT_GE(test::now_ns() - start, 20 * test::kMs);
  for (clockid_t clock : {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME}) {
    timespec at;
    clock_gettime(clock, &at);
    at.tv_nsec += 20 * test::kMs;
    if (at.tv_nsec >= 1'000'000'000) at.tv_sec++, at.tv_nsec -= 1'000'000'000;
    start = test::now_ns();
    EXPECT_EQ(clock_nanosleep(clock, TIMER_ABSTIME, &at, nullptr), 0);
    EXPECT_GE(test::now_ns() - start, 18 * test::kMs);
    EXPECT_LT(test::now_ns() - start, 2'000 * test::kMs);
    EXPECT_EQ(clock_nanosleep(clock, TIMER_ABSTIME, &at, nullptr), 0);  // in the past
  }
}

volatile sig_atomic_t g_alarms;
void on_alarm(int) { g_alarms = g_alarms + 1; }

class IntervalTimer : public ::testing::Test {
 protected:
  void SetUp() override {
    g_alarms = 0;
    struct sigaction action{};
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, nullptr);
    sigaction(SIGVTALRM, &action, nullptr);
    sigaction(SIGPROF, &action, nullptr);
  }
  void TearDown() override {
    itimerval off{};
    setitimer(ITIMER_REAL, &off, nullptr);
    setitimer(ITIMER_VIRTUAL, &off, nullptr);
    setitimer(ITIMER_PROF, &off, nullptr);
  }
  test::ActionGuard alarm_{SIGALRM}, virtual_{SIGVTALRM}, prof_{SIGPROF};
};

TEST_F(IntervalTimer, FiresRepeatedly) {
  itimerval value{{0, 10'000}, {0, 10'000}}, left;
  ASSERT_OK(setitimer(ITIMER_REAL, &value, nullptr));
  ASSERT_OK(getitimer(ITIMER_REAL, &left));
  EXPECT_EQ(left.it_interval.tv_usec, 10'000);
  EXPECT_TRUE(test::eventually([] { return g_alarms >= 5; }));
  itimerval off{}, old;
  ASSERT_OK(setitimer(ITIMER_REAL, &off, &old));
  EXPECT_EQ(old.it_interval.tv_usec, 10'000);
  const int seen = g_alarms;
  test::sleep_ms(30);
  EXPECT_EQ(g_alarms, seen);
}

TEST_F(IntervalTimer, VirtualCountsCpuTime) {
  itimerval value{{0, 0}, {0, 20'000}};
  ASSERT_OK(setitimer(ITIMER_VIRTUAL, &value, nullptr));
  test::sleep_ms(40);
  EXPECT_EQ(g_alarms, 0);
  const int64_t end = test::now_ns() + 5'000 * test::kMs;
  while (g_alarms == 0 && test::now_ns() < end) {
    for (int i = 0; i < 10'000; i++) asm volatile("");
  }
  EXPECT_EQ(g_alarms, 1);
}

TEST_F(IntervalTimer, Alarm) {
  EXPECT_EQ(alarm(100), 0u);
  const unsigned left = alarm(0);
  EXPECT_GE(left, 99u);
  EXPECT_LE(left, 100u);
  EXPECT_EQ(alarm(0), 0u);
  alarm(1);
  pause();
  EXPECT_EQ(g_alarms, 1);
}

TEST_F(IntervalTimer, IsNotInheritedByFork) {
  itimerval value{{0, 0}, {10, 0}};
  ASSERT_OK(setitimer(ITIMER_REAL, &value, nullptr));
  EXPECT_CHILD_OK([] {
    itimerval left;
    CHILD_CHECK(getitimer(ITIMER_REAL, &left) == 0);
    CHILD_CHECK(left.it_value.tv_sec == 0 && left.it_value.tv_usec == 0);
    return 0;
  });
}

TEST_F(IntervalTimer, Errors) {
  itimerval bad{{0, 0}, {0, 1'000'000}}, value{};
  EXPECT_ERRNO(setitimer(ITIMER_REAL, &bad, nullptr), EINVAL);
  EXPECT_ERRNO(setitimer(static_cast<__itimer_which>(7), &value, nullptr), EINVAL);
  EXPECT_ERRNO(getitimer(static_cast<__itimer_which>(7), &value), EINVAL);
}

TEST(Times, CountTicks) {
  tms t{};
  const clock_t a = times(&t);
  EXPECT_NE(a, static_cast<clock_t>(-1));
  test::sleep_ms(30);
  const clock_t b = times(&t);
  EXPECT_GE(b - a, 2);
  EXPECT_LT(b - a, 1000);
}

TEST(Adjtimex, ReadsOnly) {
  timex tx{};
  const int state = adjtimex(&tx);
  EXPECT_GE(state, 0);
  EXPECT_GE(tx.tick, 9'000);
}

}  // namespace
