// Signals: actions, masks, sending, queues, waiting, restart, threads and stops.
#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <thread>

#include "tests/syscalls/signal_fixture.h"

namespace {
using test::count;
using test::g_count;
using test::g_info;
using test::g_signal;
using test::handle;
using test::handle_info;
using test::note_info;
using test::run_child;
using test::set_of;
using test::spawn;
using test::wait_for;

class Signal : public test::SignalTest {};

TEST_F(Signal, HandlerRuns) {
  handle(SIGUSR1, count);
  ASSERT_OK(kill(getpid(), SIGUSR1));
  EXPECT_EQ(g_count, 1);  // delivered before kill returns
  EXPECT_EQ(g_signal, SIGUSR1);
  ASSERT_OK(raise(SIGUSR1));
  EXPECT_EQ(g_count, 2);
}

TEST_F(Signal, KillCarriesSenderInfo) {
  handle_info(SIGUSR1, note_info);
  ASSERT_OK(kill(getpid(), SIGUSR1));
  EXPECT_EQ(g_info.si_signo, SIGUSR1);
  EXPECT_EQ(g_info.si_code, SI_USER);
  EXPECT_EQ(g_info.si_pid, getpid());
  EXPECT_EQ(g_info.si_uid, getuid());
}

TEST_F(Signal, TgkillCarriesSiTkill) {
  handle_info(SIGUSR1, note_info);
  ASSERT_OK(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1));
  EXPECT_EQ(g_info.si_code, SI_TKILL);
  EXPECT_EQ(g_info.si_pid, getpid());
  ASSERT_OK(syscall(SYS_tkill, syscall(SYS_gettid), SIGUSR1));
  EXPECT_EQ(g_count, 2);
}

TEST_F(Signal, SigqueueCarriesAValue) {
  handle_info(SIGRTMIN, note_info);
  sigval value{};
  value.sival_int = 4711;
  ASSERT_OK(sigqueue(getpid(), SIGRTMIN, value));
  EXPECT_EQ(g_info.si_code, SI_QUEUE);
  EXPECT_EQ(g_info.si_value.sival_int, 4711);
  EXPECT_EQ(g_info.si_pid, getpid());
}

TEST_F(Signal, RtTgsigqueueinfo) {
  handle_info(SIGUSR2, note_info);
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_value.sival_int = 12;
  ASSERT_OK(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGUSR2, &info));
  EXPECT_EQ(g_info.si_value.sival_int, 12);
  // Codes of the kernel may be sent only to oneself.
  EXPECT_CHILD_OK([] {
    siginfo_t fake{};
    fake.si_code = SI_USER;
    CHILD_CHECK(syscall(SYS_rt_sigqueueinfo, getppid(), SIGUSR2, &fake) == -1 && errno == EPERM);
    return 0;
  });
}

TEST_F(Signal, BlockedStaysPendingAndMerges) {
  handle(SIGUSR1, count);
  sigset_t set = set_of({SIGUSR1}), old, pending;
  ASSERT_OK(sigprocmask(SIG_BLOCK, &set, &old));
  EXPECT_FALSE(sigismember(&old, SIGUSR1));
  for (int i = 0; i < 3; i++) ASSERT_OK(raise(SIGUSR1));
  EXPECT_EQ(g_count, 0);
  ASSERT_OK(sigpending(&pending));
  EXPECT_TRUE(sigismember(&pending, SIGUSR1));
  EXPECT_FALSE(sigismember(&pending, SIGUSR2));
  ASSERT_OK(sigprocmask(SIG_UNBLOCK, &set, nullptr));
  EXPECT_EQ(g_count, 1);  // a standard signal is not queued twice
  ASSERT_OK(sigpending(&pending));
  EXPECT_FALSE(sigismember(&pending, SIGUSR1));
}

std::vector<int>* g_values;
TEST_F(Signal, RealTimeSignalsQueueInOrder) {
  std::vector<int> values;
  values.reserve(64);
  g_values = &values;
  handle_info(SIGRTMIN + 1,
              [](int, siginfo_t* info, void*) { g_values->push_back(info->si_value.sival_int); });
  handle_info(SIGRTMIN, [](int, siginfo_t* info, void*) {
    g_values->push_back(1000 + info->si_value.sival_int);
  });
  sigset_t set = set_of({SIGRTMIN, SIGRTMIN + 1});
  sigprocmask(SIG_BLOCK, &set, nullptr);
  for (int i = 0; i < 10; i++) {
    sigval v{};
    v.sival_int = i;
    ASSERT_OK(sigqueue(getpid(), SIGRTMIN + 1, v));
  }
  sigset_t none = set_of({});
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ASSERT_EQ(values.size(), 10u);
  for (int i = 0; i < 10; i++) EXPECT_EQ(values[i], i);
}

TEST_F(Signal, HandlerMaskAppliesDuringTheHandler) {
  static sigset_t inside;
  struct sigaction action{};
  action.sa_handler = [](int) { sigprocmask(SIG_SETMASK, nullptr, &inside); };
  sigaddset(&action.sa_mask, SIGUSR2);
  ASSERT_OK(sigaction(SIGUSR1, &action, nullptr));
  raise(SIGUSR1);
  EXPECT_TRUE(sigismember(&inside, SIGUSR1));
  EXPECT_TRUE(sigismember(&inside, SIGUSR2));
  EXPECT_FALSE(sigismember(&inside, SIGHUP));
  sigset_t after;
  sigprocmask(SIG_SETMASK, nullptr, &after);
  EXPECT_FALSE(sigismember(&after, SIGUSR1));
  EXPECT_FALSE(sigismember(&after, SIGUSR2));
}

TEST_F(Signal, NodeferNests) {
  handle(
      SIGUSR1,
      [](int) {
        g_count = g_count + 1;
        if (g_count < 5) raise(SIGUSR1);
      },
      SA_NODEFER);
  raise(SIGUSR1);
  EXPECT_EQ(g_count, 5);
}

TEST_F(Signal, ResethandRunsOnce) {
  handle(SIGUSR1, count, SA_RESETHAND);
  raise(SIGUSR1);
  EXPECT_EQ(g_count, 1);
  struct sigaction now;
  sigaction(SIGUSR1, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

TEST_F(Signal, SigactionReturnsTheOldAction) {
  handle(SIGUSR1, count, SA_RESTART);
  struct sigaction old;
  ASSERT_OK(sigaction(SIGUSR1, nullptr, &old));
  EXPECT_EQ(old.sa_handler, count);
  EXPECT_TRUE(old.sa_flags & SA_RESTART);
  EXPECT_FALSE(old.sa_flags & SA_SIGINFO);
  handle_info(SIGUSR1, note_info);
  ASSERT_OK(sigaction(SIGUSR1, nullptr, &old));
  EXPECT_EQ(old.sa_sigaction, note_info);
  EXPECT_TRUE(old.sa_flags & SA_SIGINFO);
}

TEST_F(Signal, SigactionErrors) {
  struct sigaction action{};
  action.sa_handler = count;
  EXPECT_ERRNO(sigaction(SIGKILL, &action, nullptr), EINVAL);
  EXPECT_ERRNO(sigaction(SIGSTOP, &action, nullptr), EINVAL);
  EXPECT_ERRNO(syscall(SYS_rt_sigaction, 0, &action, nullptr, 8), EINVAL);
  EXPECT_ERRNO(syscall(SYS_rt_sigaction, 65, &action, nullptr, 8), EINVAL);
  EXPECT_ERRNO(syscall(SYS_rt_sigaction, SIGUSR1, &action, nullptr, 16), EINVAL);
  EXPECT_ERRNO(syscall(SYS_rt_sigaction, SIGUSR1, 8, nullptr, 8), EFAULT);
  EXPECT_ERRNO(syscall(SYS_rt_sigaction, 0, 8, nullptr, 8), EFAULT);
  EXPECT_OK(syscall(SYS_rt_sigaction, SIGKILL, nullptr, nullptr, 8));
}

TEST_F(Signal, SigactionForgetsUnknownFlags) {
  // The kernel's struct: handler, flags, restorer, mask. 0x400 is SA_UNSUPPORTED.
  const uint64_t wanted[4] = {1, 0x400 | SA_RESTART, 0, 0};
  uint64_t got[4] = {};
  ASSERT_OK(syscall(SYS_rt_sigaction, SIGUSR1, wanted, nullptr, 8));
  ASSERT_OK(syscall(SYS_rt_sigaction, SIGUSR1, nullptr, got, 8));
  EXPECT_EQ(got[1], uint64_t{SA_RESTART});
}

TEST_F(Signal, ProcmaskErrors) {
  sigset_t set = set_of({SIGUSR1});
  EXPECT_ERRNO(syscall(SYS_rt_sigprocmask, 77, &set, nullptr, 8), EINVAL);
  EXPECT_ERRNO(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, nullptr, 16), EINVAL);
  EXPECT_ERRNO(syscall(SYS_rt_sigprocmask, SIG_BLOCK, 8, nullptr, 8), EFAULT);
  // KILL and STOP cannot be blocked; asking is no error.
  sigset_t all;
  memset(&all, 0xff, sizeof all);
  EXPECT_OK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, nullptr, 8));
  EXPECT_OK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &all, 8));
  EXPECT_FALSE(sigismember(&all, SIGKILL));
  EXPECT_FALSE(sigismember(&all, SIGSTOP));
  EXPECT_TRUE(sigismember(&all, SIGTERM));
}

TEST_F(Signal, KillErrors) {
  EXPECT_ERRNO(kill(getpid(), 65), EINVAL);
  EXPECT_ERRNO(kill(getpid(), -1), EINVAL);
  EXPECT_ERRNO(kill(4'000'000, 0), ESRCH);
  // First there must be somebody to send to.
  EXPECT_ERRNO(kill(4'000'000, 65), ESRCH);
  EXPECT_ERRNO(kill(-4'000'000, 65), ESRCH);
  EXPECT_ERRNO(syscall(SYS_tgkill, 4'000'000, 4'000'000, 65), ESRCH);
  EXPECT_ERRNO(syscall(SYS_tgkill, getpid(), getpid(), 65), EINVAL);
  EXPECT_ERRNO(kill(-4'000'000, 0), ESRCH);
  EXPECT_OK(kill(getpid(), 0));
  EXPECT_ERRNO(syscall(SYS_tgkill, getpid(), 4'000'000, 0), ESRCH);
  EXPECT_ERRNO(syscall(SYS_tgkill, 0, 0, 0), EINVAL);
  EXPECT_ERRNO(syscall(SYS_tkill, -1, 0), EINVAL);
  EXPECT_OK(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0));
}

TEST_F(Signal, DefaultActions) {
  for (int s :
       {SIGTERM, SIGHUP, SIGINT, SIGPIPE, SIGUSR1, SIGALRM, SIGIO, SIGRTMIN, SIGSYS, SIGTRAP}) {
    int status = run_child([=] {
      raise(s);
      return 0;
    });
    EXPECT_TRUE(WIFSIGNALED(status)) << s;
    EXPECT_EQ(WTERMSIG(status), s);
  }
  for (int s : {SIGCHLD, SIGURG, SIGWINCH, SIGCONT}) {
    EXPECT_EQ(run_child([=] {
                raise(s);
                return 0;
              }),
              0)
        << s;
  }
}

TEST_F(Signal, IgnoredIsDropped) {
  signal(SIGTERM, SIG_IGN);
  EXPECT_OK(raise(SIGTERM));
  sigset_t set = set_of({SIGTERM}), pending;
  sigprocmask(SIG_BLOCK, &set, nullptr);
  raise(SIGTERM);
  sigpending(&pending);
  // Linux keeps an ignored signal pending while it is blocked.
  EXPECT_TRUE(sigismember(&pending, SIGTERM));
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  sigpending(&pending);
  EXPECT_FALSE(sigismember(&pending, SIGTERM));
  signal(SIGTERM, SIG_DFL);
}

TEST_F(Signal, SettingIgnoreDiscardsWhatIsPending) {
  handle(SIGUSR1, count);
  sigset_t set = set_of({SIGUSR1}), pending;
  sigprocmask(SIG_BLOCK, &set, nullptr);
  raise(SIGUSR1);
  signal(SIGUSR1, SIG_IGN);
  sigpending(&pending);
  EXPECT_FALSE(sigismember(&pending, SIGUSR1));
}

TEST_F(Signal, MaskIsInheritedByForkPendingIsNot) {
  handle(SIGUSR1, count);
  sigset_t set = set_of({SIGUSR1});
  sigprocmask(SIG_BLOCK, &set, nullptr);
  raise(SIGUSR1);
  EXPECT_CHILD_OK([] {
    sigset_t now;
    sigprocmask(SIG_SETMASK, nullptr, &now);
    CHILD_CHECK(sigismember(&now, SIGUSR1));
    sigpending(&now);
    CHILD_CHECK(!sigismember(&now, SIGUSR1));
    struct sigaction action;
    sigaction(SIGUSR1, nullptr, &action);
    CHILD_CHECK(action.sa_handler == count);
    return 0;
  });
}

TEST_F(Signal, SigsuspendSwapsTheMask) {
  handle(SIGUSR1, count);
  sigset_t blocked = set_of({SIGUSR1}), now;
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  raise(SIGUSR1);
  EXPECT_EQ(g_count, 0);
  sigset_t none = set_of({});
  EXPECT_ERRNO(sigsuspend(&none), EINTR);
  EXPECT_EQ(g_count, 1);
  sigprocmask(SIG_SETMASK, nullptr, &now);
  EXPECT_TRUE(sigismember(&now, SIGUSR1));  // put back
}

TEST_F(Signal, SigsuspendWaitsForAnother) {
  handle(SIGUSR1, count);
  sigset_t blocked = set_of({SIGUSR1});
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  pid_t parent = getpid();
  pid_t pid = spawn([=] {
    test::sleep_ms(30);
    kill(parent, SIGUSR1);
    return 0;
  });
  sigset_t none = set_of({SIGCHLD});
  EXPECT_ERRNO(sigsuspend(&none), EINTR);
  EXPECT_EQ(g_count, 1);
  wait_for(pid);
}

TEST_F(Signal, PauseReturnsAfterAHandlerOnly) {
  handle(SIGUSR1, count);
  pid_t parent = getpid();
  pid_t pid = spawn([=] {
    test::sleep_ms(20);
    kill(parent, SIGURG);  // ignored: pause goes on
    test::sleep_ms(20);
    kill(parent, SIGUSR1);
    return 0;
  });
  EXPECT_ERRNO(pause(), EINTR);
  EXPECT_EQ(g_count, 1);
  wait_for(pid);
}

TEST_F(Signal, SigwaitinfoTakesAPendingSignal) {
  sigset_t set = set_of({SIGUSR1, SIGRTMIN});
  sigprocmask(SIG_BLOCK, &set, nullptr);
  sigval v{};
  v.sival_int = 3;
  sigqueue(getpid(), SIGRTMIN, v);
  siginfo_t info{};
  EXPECT_EQ(sigwaitinfo(&set, &info), SIGRTMIN);
  EXPECT_EQ(info.si_value.sival_int, 3);
  sigset_t pending;
  sigpending(&pending);
  EXPECT_FALSE(sigismember(&pending, SIGRTMIN));
}

TEST_F(Signal, SigtimedwaitTimesOut) {
  sigset_t set = set_of({SIGUSR1});
  sigprocmask(SIG_BLOCK, &set, nullptr);
  timespec zero{0, 0}, some{0, 30 * test::kMs}, bad{0, 1'000'000'000};
  EXPECT_ERRNO(sigtimedwait(&set, nullptr, &zero), EAGAIN);
  const int64_t start = test::now_ns();
  EXPECT_ERRNO(sigtimedwait(&set, nullptr, &some), EAGAIN);
  EXPECT_GE(test::now_ns() - start, 30 * test::kMs);
  EXPECT_ERRNO(sigtimedwait(&set, nullptr, &bad), EINVAL);
}

TEST_F(Signal, SigtimedwaitIsInterruptedByOthers) {
  handle(SIGUSR2, count);
  sigset_t set = set_of({SIGUSR1});
  sigprocmask(SIG_BLOCK, &set, nullptr);
  pid_t parent = getpid();
  pid_t pid = spawn([=] {
    test::sleep_ms(30);
    kill(parent, SIGUSR2);
    return 0;
  });
  EXPECT_ERRNO(sigwaitinfo(&set, nullptr), EINTR);
  wait_for(pid);
}

// ---- Restart.

// Reads from an empty pipe, is hit by SIGUSR1 after 30 ms, and gets "x" after 60 ms.
int read_with_signal(int flags, char* c) {
  int fds[2];
  if (pipe(fds) != 0) return -2;
  handle(SIGUSR1, count, flags);
  pid_t parent = getpid();
  pid_t pid = spawn([&] {
    test::sleep_ms(30);
    kill(parent, SIGUSR1);
    test::sleep_ms(30);
    (void)!write(fds[1], "x", 1);
    return 0;
  });
  int n = read(fds[0], c, 1);
  int saved = errno;
  wait_for(pid);
  close(fds[0]);
  close(fds[1]);
  errno = saved;
  return n;
}

TEST_F(Signal, ReadRestartsUnderSaRestart) {
  char c = 0;
  EXPECT_EQ(read_with_signal(SA_RESTART, &c), 1);
  EXPECT_EQ(c, 'x');
  EXPECT_EQ(g_count, 1);
}

TEST_F(Signal, ReadFailsWithEintrWithoutIt) {
  char c = 0;
  EXPECT_ERRNO(read_with_signal(0, &c), EINTR);
  EXPECT_EQ(g_count, 1);
}

TEST_F(Signal, ReadRestartsAfterStopAndCont) {
  int fds[2];
  ASSERT_OK(pipe(fds));
  pid_t pid = spawn([&] {
    char c = 0;
    CHILD_CHECK(read(fds[0], &c, 1) == 1 && c == 'y');
    return 0;
  });
  test::sleep_ms(20);
  int status;
  kill(pid, SIGSTOP);
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  kill(pid, SIGCONT);
  test::sleep_ms(20);
  ASSERT_EQ(write(fds[1], "y", 1), 1);
  EXPECT_EQ(wait_for(pid), 0);
  close(fds[0]);
  close(fds[1]);
}

TEST_F(Signal, WaitRestartsUnderSaRestart) {
  handle(SIGUSR1, count, SA_RESTART);
  pid_t parent = getpid();
  pid_t pid = spawn([=] {
    test::sleep_ms(20);
    kill(parent, SIGUSR1);
    test::sleep_ms(20);
    return 4;
  });
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 4);
  EXPECT_EQ(g_count, 1);
}

TEST_F(Signal, NanosleepIsNotRestartedButGivesTheRest) {
  handle(SIGUSR1, count, SA_RESTART);
  pid_t parent = getpid();
  pid_t pid = spawn([=] {
    test::sleep_ms(30);
    kill(parent, SIGUSR1);
    return 0;
  });
  timespec req{5, 0}, rem{};
  EXPECT_ERRNO(nanosleep(&req, &rem), EINTR);
  EXPECT_EQ(rem.tv_sec, 4);
  wait_for(pid);
}

TEST_F(Signal, NanosleepContinuesAfterStopAndCont) {
  const int64_t start = test::now_ns();
  pid_t pid = spawn([] {
    timespec req{0, 150 * test::kMs};
    return nanosleep(&req, nullptr) == 0 ? 0 : 1;
  });
  test::sleep_ms(30);
  kill(pid, SIGSTOP);
  waitpid(pid, nullptr, WUNTRACED);
  kill(pid, SIGCONT);
  EXPECT_EQ(wait_for(pid), 0);
  EXPECT_GE(test::now_ns() - start, 150 * test::kMs);
  EXPECT_LT(test::now_ns() - start, 5000 * test::kMs);
}

// ---- Threads, groups, stops.

TEST_F(Signal, ToAThread) {
  static std::atomic<pid_t> handled_by;
  handled_by = 0;
  handle(SIGUSR1, [](int) { handled_by = static_cast<pid_t>(syscall(SYS_gettid)); });
  std::atomic<pid_t> tid{0};
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    tid = static_cast<pid_t>(syscall(SYS_gettid));
    while (!stop) test::sleep_ms(1);
  });
  while (tid == 0) test::sleep_ms(1);
  ASSERT_OK(syscall(SYS_tgkill, getpid(), tid.load(), SIGUSR1));
  EXPECT_TRUE(test::eventually([&] { return handled_by == tid; }));
  stop = true;
  thread.join();
}

TEST_F(Signal, ToAProcessPicksAThreadThatDoesNotBlockIt) {
  static std::atomic<pid_t> handled_by;
  handled_by = 0;
  handle(SIGUSR1, [](int) { handled_by = static_cast<pid_t>(syscall(SYS_gettid)); });
  std::atomic<pid_t> tid{0};
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    tid = static_cast<pid_t>(syscall(SYS_gettid));
    while (!stop) test::sleep_ms(1);
  });
  while (tid == 0) test::sleep_ms(1);
  sigset_t set = set_of({SIGUSR1});
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ASSERT_OK(kill(getpid(), SIGUSR1));
  EXPECT_TRUE(test::eventually([&] { return handled_by == tid; }));
  stop = true;
  thread.join();
}

// The signal was meant for the main thread, which blocks it before it sees it: the other one takes
// it at once (retarget_shared_pending()).
TEST_F(Signal, ToAProcessFindsAnotherThreadWhenTheFirstBlocksIt) {
  static std::atomic<int> handled, round;
  static std::atomic<bool> stop, ended;
  handled = round = 0;
  stop = ended = false;
  handle(SIGUSR1, [](int) { ++handled; });
  const sigset_t set = set_of({SIGUSR1});
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread sleeper([&] {
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    while (!stop) poll(nullptr, 0, 60'000);  // a signal ends it
    ended = true;
  });
  std::thread sender([] {
    for (int seen = 0; !stop;) {
      if (round == seen) continue;
      seen = round;
      kill(getpid(), SIGUSR1);
    }
  });
  for (int i = 1; i <= 500; i++) {
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    round = i;
    for (int k = 0; k < i * 131 % 20'000; k++) asm volatile("");
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    const bool taken = test::eventually([&] { return handled >= i; });
    EXPECT_TRUE(taken) << "round " << i;
    if (!taken) break;
  }
  stop = true;
  sender.join();
  EXPECT_TRUE(test::eventually([&] {
    kill(getpid(), SIGUSR1);
    return ended.load();
  }));
  sleeper.join();
}

TEST_F(Signal, FatalSignalEndsAllThreads) {
  int status = run_child([] {
    for (int i = 0; i < 5; i++)
      std::thread([] {
        for (;;) pause();
      }).detach();
    test::sleep_ms(10);
    raise(SIGTERM);
    return 0;
  });
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST_F(Signal, ToAProcessGroup) {
  EXPECT_CHILD_OK([] {
    CHILD_CHECK(setpgid(0, 0) == 0);
    pid_t a = spawn([] {
      for (;;) pause();
      return 0;
    });
    pid_t b = spawn([] {
      for (;;) pause();
      return 0;
    });
    signal(SIGUSR1, SIG_IGN);
    CHILD_CHECK(kill(0, SIGUSR1) == 0);
    CHILD_CHECK(WTERMSIG(wait_for(a)) == SIGUSR1);
    CHILD_CHECK(WTERMSIG(wait_for(b)) == SIGUSR1);
    return 0;
  });
}

TEST_F(Signal, SysRestartSyscallAloneIsEintr) { EXPECT_ERRNO(syscall(SYS_restart_syscall), EINTR); }

TEST_F(Signal, StopSignalsStop) {
  pid_t pid = spawn([] {
    for (;;) pause();
    return 0;
  });
  // A group of its own, whose parent is in the same session: not orphaned, so SIGTSTP stops it.
  ASSERT_OK(setpgid(pid, pid));
  int status;
  for (int s : {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU}) {
    kill(pid, s);
    ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
    EXPECT_EQ(WSTOPSIG(status), s);
    kill(pid, SIGCONT);
  }
  kill(pid, SIGKILL);
  wait_for(pid);
}

TEST_F(Signal, ContinueHandlerRunsAfterACont) {
  pid_t pid = spawn([] {
    handle(SIGCONT, [](int) { _exit(8); });
    raise(SIGSTOP);
    test::sleep_ms(1000);
    return 1;
  });
  int status;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  EXPECT_TRUE(WIFSTOPPED(status));
  kill(pid, SIGCONT);
  status = wait_for(pid);
  EXPECT_EQ(WEXITSTATUS(status), 8);
}

TEST_F(Signal, StoppedProcessKeepsSignalsPending) {
  pid_t pid = spawn([] {
    handle(SIGUSR1, [](int) { _exit(9); });
    raise(SIGSTOP);
    test::sleep_ms(2000);
    return 1;
  });
  int status;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  kill(pid, SIGUSR1);
  test::sleep_ms(20);
  EXPECT_EQ(waitpid(pid, &status, WNOHANG), 0);
  kill(pid, SIGCONT);
  EXPECT_EQ(WEXITSTATUS(wait_for(pid)), 9);
}

TEST_F(Signal, NoChildSignalForStopsIfNotWanted) {
  handle(SIGCHLD, count, SA_NOCLDSTOP);
  const pid_t pid = test::spawn([] {
    for (;;) pause();
    return 0;
  });
  int status = 0;
  ASSERT_OK(kill(pid, SIGSTOP));
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  EXPECT_TRUE(WIFSTOPPED(status));
  ASSERT_OK(kill(pid, SIGCONT));
  ASSERT_EQ(waitpid(pid, &status, WCONTINUED), pid);
  EXPECT_EQ(g_count, 0);
  ASSERT_OK(kill(pid, SIGKILL));
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(test::eventually([] { return g_count == 1; }));
}

TEST_F(Signal, ChildrenLeaveNoZombiesIfNotWanted) {
  handle(SIGCHLD, count, SA_NOCLDWAIT);
  const pid_t pid = test::spawn([] { return 0; });
  EXPECT_ERRNO(waitpid(pid, nullptr, 0), ECHILD);  // when it has ended
  EXPECT_ERRNO(kill(pid, 0), ESRCH);
  EXPECT_TRUE(test::eventually([] { return g_count == 1; }));  // the signal comes all the same
}

// poll goes on by restart_syscall when a stop is over.
TEST_F(Signal, StopsDoNotEndAWait) {
  EXPECT_CHILD_OK([] {
    const pid_t parent = getpid();
    const pid_t helper = fork();
    if (helper == 0) {
      test::sleep_ms(50);
      kill(parent, SIGSTOP);
      test::sleep_ms(50);
      kill(parent, SIGCONT);
      _exit(0);
    }
    const int64_t start = test::now_ns();
    CHILD_CHECK(poll(nullptr, 0, 300) == 0);
    CHILD_CHECK(test::now_ns() - start >= 300 * test::kMs);
    CHILD_CHECK(test::wait_for(helper) == 0);
    return 0;
  });
}

}  // namespace
