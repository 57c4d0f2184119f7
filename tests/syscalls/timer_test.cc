// POSIX timers.
#include <sys/time.h>
#include <sys/timerfd.h>

#include "tests/syscalls/test_util.h"

namespace {

volatile sig_atomic_t g_fired, g_value, g_code, g_overrun;
void on_timer(int, siginfo_t* info, void*) {
  g_fired = g_fired + 1;
  g_value = info->si_value.sival_int;
  g_code = info->si_code;
  g_overrun = info->si_overrun;
}

class Timer : public ::testing::Test {
 protected:
  void SetUp() override {
    g_fired = 0;
    struct sigaction action{};
    action.sa_sigaction = on_timer;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGRTMIN, &action, nullptr);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN;
    event.sigev_value.sival_int = 99;
  }
  sigevent event{};
  test::ActionGuard guard_{SIGRTMIN};
};

itimerspec ms(int first, int interval = 0) {
  return {{0, interval * test::kMs}, {0, first * test::kMs}};
}

TEST_F(Timer, FiresWithItsValue) {
  timer_t id;
  ASSERT_OK(timer_create(CLOCK_MONOTONIC, &event, &id));
  itimerspec value = ms(20), left;
  ASSERT_OK(timer_settime(id, 0, &value, nullptr));
  ASSERT_OK(timer_gettime(id, &left));
  EXPECT_GT(left.it_value.tv_nsec, 0);
  EXPECT_TRUE(test::eventually([] { return g_fired > 0; }));
  EXPECT_EQ(g_fired, 1);
  EXPECT_EQ(g_value, 99);
  EXPECT_EQ(g_code, SI_TIMER);
  EXPECT_OK(timer_delete(id));
  EXPECT_ERRNO(timer_gettime(id, &left), EINVAL);
}

TEST_F(Timer, RepeatsAndCountsOverruns) {
  timer_t id;
  ASSERT_OK(timer_create(CLOCK_MONOTONIC, &event, &id));
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  itimerspec value = ms(5, 5);
  ASSERT_OK(timer_settime(id, 0, &value, nullptr));
  test::sleep_ms(60);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  EXPECT_TRUE(test::eventually([] { return g_fired >= 3; }));
  EXPECT_GE(timer_getoverrun(id), 0);
  EXPECT_OK(timer_delete(id));
}

TEST_F(Timer, NotifyNone) {
  event.sigev_notify = SIGEV_NONE;
  timer_t id;
  ASSERT_OK(timer_create(CLOCK_REALTIME, &event, &id));
  itimerspec value = ms(10), left;
  ASSERT_OK(timer_settime(id, 0, &value, nullptr));
  test::sleep_ms(30);
  ASSERT_OK(timer_gettime(id, &left));
  EXPECT_EQ(left.it_value.tv_sec + left.it_value.tv_nsec, 0);
  EXPECT_EQ(g_fired, 0);
  timer_delete(id);
}

TEST_F(Timer, Errors) {
  timer_t id;
  EXPECT_ERRNO(timer_create(77, &event, &id), EINVAL);
  event.sigev_signo = 1000;
  EXPECT_ERRNO(timer_create(CLOCK_MONOTONIC, &event, &id), EINVAL);
  EXPECT_ERRNO(syscall(SYS_timer_delete, 123456), EINVAL);
  itimerspec value = ms(1);
  EXPECT_ERRNO(syscall(SYS_timer_settime, 123456, 0, &value, nullptr), EINVAL);
}

// Of the only thread of a process, and of another process that works.
TEST_F(Timer, OnCpuClocksOfAThreadAndOfAnother) {
  const pid_t busy = test::spawn([] {
    for (const int64_t end = test::now_ns() + 60'000 * test::kMs; test::now_ns() < end;) {
    }
    return 0;
  });
  clockid_t others;
  ASSERT_EQ(clock_getcpuclockid(busy, &others), 0);
  for (const clockid_t clock : {CLOCK_THREAD_CPUTIME_ID, others}) {
    g_fired = 0;
    timer_t id;
    ASSERT_OK(timer_create(clock, &event, &id));
    const int64_t before = test::now_ns(clock);
    itimerspec value = ms(20);
    ASSERT_OK(timer_settime(id, 0, &value, nullptr));
    for (const int64_t end = test::now_ns() + 30'000 * test::kMs;
         !g_fired && test::now_ns() < end;) {
    }
    EXPECT_EQ(g_fired, 1);
    EXPECT_GE(test::now_ns(clock) - before, 20 * test::kMs);
    EXPECT_OK(timer_delete(id));
  }
  // Its clock stands still when it has ended; the timer stays.
  timer_t id;
  ASSERT_OK(timer_create(others, &event, &id));
  kill(busy, SIGKILL);
  test::wait_for(busy);
  itimerspec value = ms(1);
  (void)timer_settime(id, 0, &value, nullptr);
  EXPECT_OK(timer_delete(id));
}

TEST_F(Timer, AreNotInheritedByFork) {
  timer_t id;
  ASSERT_OK(timer_create(CLOCK_MONOTONIC, &event, &id));
  EXPECT_CHILD_OK([&] {
    itimerspec left;
    CHILD_CHECK(timer_gettime(id, &left) == -1 && errno == EINVAL);
    return 0;
  });
  timer_delete(id);
}

// Each timer has its signal, also beside others of the same number.
TEST_F(Timer, TwoOfOneSignalBothTell) {
  timer_t ids[2];
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  for (int i = 0; i < 2; i++) {
    event.sigev_value.sival_int = i;
    ASSERT_OK(timer_create(CLOCK_MONOTONIC, &event, &ids[i]));
    const itimerspec value = ms(1 + i);
    ASSERT_OK(timer_settime(ids[i], 0, &value, nullptr));
  }
  test::sleep_ms(50);
  const timespec now{0, 0};
  for (int i = 0; i < 2; i++) {
    siginfo_t info;
    ASSERT_EQ(sigtimedwait(&set, &info, &now), SIGRTMIN);
    EXPECT_EQ(info.si_value.sival_int, i);
    EXPECT_EQ(info.si_overrun, 0);
  }
  EXPECT_ERRNO(sigtimedwait(&set, nullptr, &now), EAGAIN);
  for (timer_t id : ids) EXPECT_OK(timer_delete(id));
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

TEST_F(Timer, OverrunsAreCountedWhenTheSignalIsTaken) {
  timer_t id;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  ASSERT_OK(timer_create(CLOCK_MONOTONIC, &event, &id));
  const itimerspec value = ms(1, 1);
  ASSERT_OK(timer_settime(id, 0, &value, nullptr));
  test::sleep_ms(60);
  itimerspec left;
  ASSERT_OK(timer_gettime(id, &left));
  EXPECT_LE(left.it_value.tv_nsec, test::kMs);
  siginfo_t info;
  const timespec second{1, 0};
  ASSERT_EQ(sigtimedwait(&set, &info, &second), SIGRTMIN);
  EXPECT_GE(info.si_overrun, 30);
  EXPECT_EQ(timer_getoverrun(id), info.si_overrun);
  ASSERT_EQ(sigtimedwait(&set, &info, &second), SIGRTMIN);  // it goes on
  EXPECT_OK(timer_delete(id));
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

TEST_F(Timer, GoesOnAfterItsSignalWasIgnored) {
  timer_t id;
  ASSERT_OK(timer_create(CLOCK_MONOTONIC, &event, &id));
  struct sigaction handler, ignore{};
  ignore.sa_handler = SIG_IGN;
  ASSERT_OK(sigaction(SIGRTMIN, &ignore, &handler));
  const itimerspec value = ms(1, 1);
  ASSERT_OK(timer_settime(id, 0, &value, nullptr));
  test::sleep_ms(20);
  EXPECT_EQ(g_fired, 0);
  ASSERT_OK(sigaction(SIGRTMIN, &handler, nullptr));
  EXPECT_TRUE(test::eventually([] { return g_fired >= 3; }));
  EXPECT_OK(timer_delete(id));
}

TEST_F(Timer, IntervalTimerGoesOnWhenItsSignalIsTaken) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  const itimerval value{{0, 2000}, {0, 2000}};
  ASSERT_OK(setitimer(ITIMER_REAL, &value, nullptr));
  test::sleep_ms(30);
  itimerval left;
  ASSERT_OK(getitimer(ITIMER_REAL, &left));
  EXPECT_EQ(left.it_interval.tv_usec, 2000);
  const timespec second{1, 0};
  for (int i = 0; i < 5; i++) EXPECT_EQ(sigtimedwait(&set, nullptr, &second), SIGALRM);
  const itimerval off{};
  ASSERT_OK(setitimer(ITIMER_REAL, &off, nullptr));
  const timespec now{0, 0};
  (void)sigtimedwait(&set, nullptr, &now);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace
