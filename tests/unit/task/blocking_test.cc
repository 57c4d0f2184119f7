// Calls that wait: woken, interrupted, restarted, timed out.
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/wait.h>

#include "tests/unit/task/sandbox.h"

namespace uks {
namespace {

constexpr uint64_t kRestart = SA_RESTART;

struct Blocking : Sandbox {
  static constexpr uint64_t kBuffer = kMemory + 0x1000, kWord = kMemory + 0x40,
                            kOther = kMemory + 0x80, kTime = kMemory + 0x100;
  static constexpr size_t kPipeSize = 65536;
};

TEST_F(Blocking, PipeReadWaitsAndIsWoken) {
  const auto [in, out] = pipe(*first);
  Guest child = fork(*first);
  EXPECT_EQ(first->call(SYS_read, in, kBuffer, 100), std::nullopt);
  EXPECT_TRUE(first->waits());
  EXPECT_FALSE(first->runs());
  child.put_text(kBuffer, "hello");
  EXPECT_EQ(child.call(SYS_write, out, kBuffer, 5), 5);
  EXPECT_EQ(first->result(), 5);
  EXPECT_EQ(first->text(kBuffer, 5), "hello");
  EXPECT_TRUE(first->runs());
}

TEST_F(Blocking, PipeReadEndsWithTheLastWriter) {
  const auto [in, out] = pipe(*first);
  Guest child = fork(*first);
  EXPECT_EQ(first->call(SYS_close, out), 0);
  EXPECT_EQ(first->call(SYS_read, in, kBuffer, 100), std::nullopt);
  EXPECT_EQ(child.call(SYS_exit_group, 0), std::nullopt);
  EXPECT_EQ(first->result(), 0);
}

TEST_F(Blocking, OneWriteWakesOneOfTwoReaders) {
  const auto [in, out] = pipe(*first);
  Guest a = fork(*first), b = fork(*first);
  EXPECT_EQ(a.call(SYS_read, in, kBuffer, 1), std::nullopt);
  EXPECT_EQ(b.call(SYS_read, in, kBuffer, 1), std::nullopt);
  EXPECT_EQ(first->call(SYS_write, out, kBuffer, 1), 1);
  EXPECT_NE(a.result().has_value(), b.result().has_value());
  EXPECT_EQ(first->call(SYS_write, out, kBuffer, 1), 1);
  EXPECT_EQ(a.result(), 1);
  EXPECT_EQ(b.result(), 1);
}

TEST_F(Blocking, PartialWriteGoesOnAsThereIsRoom) {
  const auto [in, out] = pipe(*first);
  Guest writer = fork(*first);
  EXPECT_EQ(writer.call(SYS_write, out, kBuffer, kPipeSize + 5000), std::nullopt);
  EXPECT_TRUE(writer.waits());
  EXPECT_EQ(first->call(SYS_read, in, kBuffer, 4096), 4096);
  EXPECT_EQ(writer.result(), std::nullopt) << "904 bytes are still to come";
  EXPECT_EQ(first->call(SYS_read, in, kBuffer, 4096), 4096);
  EXPECT_EQ(writer.result(), static_cast<int64_t>(kPipeSize + 5000));
  EXPECT_EQ(first->call(SYS_read, in, kBuffer, 2 * kPipeSize),
            static_cast<int64_t>(kPipeSize + 5000 - 8192));
}

TEST_F(Blocking, PartialWriteThatIsInterruptedSaysHowFarItCame) {
  const auto [in, out] = pipe(*first);
  Guest writer = fork(*first);
  handle(writer, SIGUSR1, kRestart);  // not even then does it begin anew
  EXPECT_EQ(writer.call(SYS_write, out, kBuffer, kPipeSize + 1), std::nullopt);
  EXPECT_EQ(first->call(SYS_kill, writer.pid(), SIGUSR1), 0);
  ASSERT_EQ(writer.handlers().size(), 1u);
  writer.return_from_handler();
  EXPECT_EQ(writer.result(), static_cast<int64_t>(kPipeSize));
}

TEST_F(Blocking, BufferThatEndsTooEarlyShortensARead) {
  const auto [in, out] = pipe(*first);
  EXPECT_EQ(first->call(SYS_write, out, kBuffer, 100), 100);
  EXPECT_EQ(first->call(SYS_read, in, kMemory + kMemorySize - 40, 100), 40);
  EXPECT_EQ(first->call(SYS_write, out, kBuffer, 100), 100);
  EXPECT_EQ(first->call(SYS_read, in, kMemory + kMemorySize, 100), -EFAULT);
}

// ---- Signals

TEST_F(Blocking, ReadWithoutRestartFailsWithEintr) {
  const auto [in, out] = pipe(*first);
  (void)out;
  Guest child = fork(*first);
  handle(*first, SIGUSR1, 0);
  EXPECT_EQ(first->call(SYS_read, in, kBuffer, 1), std::nullopt);
  EXPECT_EQ(child.call(SYS_kill, first->pid(), SIGUSR1), 0);
  ASSERT_EQ(first->handlers().size(), 1u);
  EXPECT_EQ(first->handlers()[0].signo, SIGUSR1);
  EXPECT_EQ(first->handlers()[0].address, kHandler);
  EXPECT_EQ(first->task().blocked_signals, signal_bit(SIGUSR1));
  first->return_from_handler();
  EXPECT_EQ(first->result(), -EINTR);
  EXPECT_EQ(first->task().blocked_signals, 0u);
}

TEST_F(Blocking, ReadWithRestartGoesOnAfterTheHandler) {
  const auto [in, out] = pipe(*first);
  Guest child = fork(*first);
  handle(*first, SIGUSR1, kRestart);
  EXPECT_EQ(first->call(SYS_read, in, kBuffer, 1), std::nullopt);
  EXPECT_EQ(child.call(SYS_kill, first->pid(), SIGUSR1), 0);
  ASSERT_EQ(first->handlers().size(), 1u);
  // The handler makes calls of its own.
  EXPECT_EQ(first->call(SYS_getpid), first->pid());
  first->return_from_handler();
  EXPECT_EQ(first->result(), std::nullopt);
  EXPECT_TRUE(first->waits());
  EXPECT_EQ(child.call(SYS_write, out, kBuffer, 1), 1);
  EXPECT_EQ(first->result(), 1);
}

TEST_F(Blocking, StopWithoutHandlerRestartsTheCall) {
  const auto [in, out] = pipe(*first);
  Guest child = fork(*first);
  EXPECT_EQ(child.call(SYS_read, in, kBuffer, 1), std::nullopt);
  EXPECT_EQ(first->call(SYS_kill, child.pid(), SIGSTOP), 0);
  EXPECT_FALSE(child.waits());
  EXPECT_EQ(first->call(SYS_kill, child.pid(), SIGCONT), 0);
  EXPECT_TRUE(child.handlers().empty());
  EXPECT_TRUE(child.waits());
  EXPECT_EQ(first->call(SYS_write, out, kBuffer, 1), 1);
  EXPECT_EQ(child.result(), 1);
}

TEST_F(Blocking, TwoSignalsNestTheirHandlers) {
  const auto [in, out] = pipe(*first);
  (void)out;
  Guest child = fork(*first);
  handle(*first, SIGUSR1, 0);
  handle(*first, SIGUSR2, 0);
  EXPECT_EQ(first->call(SYS_read, in, kBuffer, 1), std::nullopt);
  EXPECT_EQ(child.call(SYS_kill, first->pid(), SIGUSR1), 0);
  EXPECT_EQ(child.call(SYS_kill, first->pid(), SIGUSR2), 0);
  ASSERT_EQ(first->handlers().size(), 2u);  // the second by a kick
  EXPECT_EQ(first->handlers()[1].signo, SIGUSR2);
  first->return_from_handler();
  EXPECT_EQ(first->handlers().size(), 1u);
  first->return_from_handler();
  EXPECT_EQ(first->result(), -EINTR);
}

TEST_F(Blocking, BlockedSignalLeavesTheCallAlone) {
  const auto [in, out] = pipe(*first);
  Guest child = fork(*first);
  handle(*first, SIGUSR1, 0);
  first->put(kBuffer, signal_bit(SIGUSR1));
  EXPECT_EQ(first->call(SYS_rt_sigprocmask, SIG_BLOCK, kBuffer, 0, 8), 0);
  EXPECT_EQ(first->call(SYS_read, in, kBuffer, 1), std::nullopt);
  EXPECT_EQ(child.call(SYS_kill, first->pid(), SIGUSR1), 0);
  EXPECT_TRUE(first->waits());
  EXPECT_EQ(child.call(SYS_write, out, kBuffer, 1), 1);
  EXPECT_EQ(first->result(), 1);
  EXPECT_TRUE(first->handlers().empty());
}

TEST_F(Blocking, StoppedProcessAnswersWhenItGoesOn) {
  const auto [in, out] = pipe(*first);
  Guest child = fork(*first);
  EXPECT_EQ(child.call(SYS_read, in, kBuffer, 1), std::nullopt);
  EXPECT_EQ(first->call(SYS_kill, child.pid(), SIGSTOP), 0);
  EXPECT_EQ(first->call(SYS_wait4, child.pid(), kBuffer, WUNTRACED, 0), child.pid());
  EXPECT_EQ(first->get<int>(kBuffer), SIGSTOP << 8 | 0x7f);
  EXPECT_EQ(first->call(SYS_write, out, kBuffer, 1), 1);
  EXPECT_EQ(child.result(), std::nullopt);
  EXPECT_EQ(first->call(SYS_kill, child.pid(), SIGCONT), 0);
  EXPECT_EQ(child.result(), 1);
}

// ---- Time

TEST_F(Blocking, SleepEndsToTheNanosecond) {
  first->put(kTime, timespec{10, 5});
  EXPECT_EQ(first->call(SYS_nanosleep, kTime, 0), std::nullopt);
  pass_time(10 * kSecond + 4);
  EXPECT_EQ(first->result(), std::nullopt);
  pass_time(1);
  EXPECT_EQ(first->result(), 0);
}

TEST_F(Blocking, InterruptedSleepSaysWhatIsLeft) {
  Guest child = fork(*first);
  handle(*first, SIGUSR1, kRestart);  // sleeps are not restarted
  first->put(kTime, timespec{10, 0});
  EXPECT_EQ(first->call(SYS_nanosleep, kTime, kBuffer), std::nullopt);
  pass_time(4 * kSecond);
  EXPECT_EQ(child.call(SYS_kill, first->pid(), SIGUSR1), 0);
  ASSERT_EQ(first->handlers().size(), 1u);
  first->return_from_handler();
  EXPECT_EQ(first->result(), -EINTR);
  EXPECT_EQ(first->get<timespec>(kBuffer).tv_sec, 6);
}

TEST_F(Blocking, SleepThatIsContinuedKeepsItsEnd) {
  Guest child = fork(*first);
  child.put(kTime, timespec{10, 0});
  EXPECT_EQ(child.call(SYS_nanosleep, kTime, 0), std::nullopt);
  pass_time(4 * kSecond);
  EXPECT_EQ(first->call(SYS_kill, child.pid(), SIGSTOP), 0);
  pass_time(kSecond);
  EXPECT_EQ(first->call(SYS_kill, child.pid(), SIGCONT), 0);  // restart_syscall(2) goes on with it
  EXPECT_TRUE(child.waits());
  pass_time(5 * kSecond - 1);
  EXPECT_EQ(child.result(), std::nullopt);
  pass_time(1);
  EXPECT_EQ(child.result(), 0);
}

TEST_F(Blocking, PollTimesOutOrIsWoken) {
  const auto [in, out] = pipe(*first);
  Guest child = fork(*first);
  first->put(kBuffer, pollfd{in, POLLIN, 0});
  EXPECT_EQ(first->call(SYS_poll, kBuffer, 1, 1500), std::nullopt);
  pass_time(1'499'999'999);
  EXPECT_EQ(first->result(), std::nullopt);
  pass_time(1);
  EXPECT_EQ(first->result(), 0);
  EXPECT_EQ(first->call(SYS_poll, kBuffer, 1, 1500), std::nullopt);
  EXPECT_EQ(child.call(SYS_write, out, kBuffer, 1), 1);
  EXPECT_EQ(first->result(), 1);
  EXPECT_EQ(first->get<pollfd>(kBuffer).revents, POLLIN);
}

// ---- Futexes

TEST_F(Blocking, FutexWaitAndWake) {
  Guest other = new_thread(*first);
  first->put(kWord, uint32_t{7});
  EXPECT_EQ(first->call(SYS_futex, kWord, FUTEX_WAIT_PRIVATE, 8, 0), -EAGAIN);
  EXPECT_EQ(first->call(SYS_futex, kWord, FUTEX_WAIT_PRIVATE, 7, 0), std::nullopt);
  EXPECT_EQ(other.call(SYS_futex, kOther, FUTEX_WAKE_PRIVATE, 1), 0);
  EXPECT_EQ(first->result(), std::nullopt);
  EXPECT_EQ(other.call(SYS_futex, kWord, FUTEX_WAKE_PRIVATE, 1), 1);
  EXPECT_EQ(first->result(), 0);
  EXPECT_EQ(other.call(SYS_futex, kWord, FUTEX_WAKE_PRIVATE, 1), 0);
}

TEST_F(Blocking, FutexOfAnotherProcessIsAnother) {
  Guest child = fork(*first);
  EXPECT_EQ(first->call(SYS_futex, kWord, FUTEX_WAIT_PRIVATE, 0, 0), std::nullopt);
  EXPECT_EQ(child.call(SYS_futex, kWord, FUTEX_WAKE_PRIVATE, 1), 0);
  EXPECT_TRUE(first->waits());
}

TEST_F(Blocking, FutexWaitTimesOut) {
  Guest other = new_thread(*first);
  first->put(kTime, timespec{2, 0});
  EXPECT_EQ(first->call(SYS_futex, kWord, FUTEX_WAIT_PRIVATE, 0, kTime), std::nullopt);
  pass_time(2 * kSecond - 1);
  EXPECT_EQ(first->result(), std::nullopt);
  pass_time(1);
  EXPECT_EQ(first->result(), -ETIMEDOUT);
  EXPECT_EQ(other.call(SYS_futex, kWord, FUTEX_WAKE_PRIVATE, 1), 0) << "it has left the queue";
  // An absolute time.
  first->put(kTime, timespec{now / kSecond + 3, now % kSecond});
  EXPECT_EQ(first->call(SYS_futex, kWord, FUTEX_WAIT_BITSET_PRIVATE, 0, kTime, 0, ~0u),
            std::nullopt);
  pass_time(3 * kSecond - 1);
  EXPECT_EQ(first->result(), std::nullopt);
  pass_time(1);
  EXPECT_EQ(first->result(), -ETIMEDOUT);
}

TEST_F(Blocking, FutexRequeue) {
  Guest a = new_thread(*first), b = new_thread(*first), c = new_thread(*first);
  for (Guest* waiter : {&a, &b, &c})
    EXPECT_EQ(waiter->call(SYS_futex, kWord, FUTEX_WAIT_PRIVATE, 0, 0), std::nullopt);
  EXPECT_EQ(first->call(SYS_futex, kWord, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1, kOther, 5), -EAGAIN);
  EXPECT_EQ(first->call(SYS_futex, kWord, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1, kOther, 0), 2);
  EXPECT_EQ(a.result(), 0);
  EXPECT_EQ(b.result(), std::nullopt);
  EXPECT_EQ(first->call(SYS_futex, kOther, FUTEX_WAKE_PRIVATE, 10), 1);
  EXPECT_EQ(b.result(), 0);
  EXPECT_EQ(first->call(SYS_futex, kWord, FUTEX_WAKE_PRIVATE, 10), 1);
  EXPECT_EQ(c.result(), 0);
}

TEST_F(Blocking, FutexWaitIsInterruptedAndRestarted) {
  Guest other = new_thread(*first);
  handle(*first, SIGUSR1, kRestart);
  EXPECT_EQ(first->call(SYS_futex, kWord, FUTEX_WAIT_PRIVATE, 0, 0), std::nullopt);
  EXPECT_EQ(other.call(SYS_tgkill, first->pid(), first->tid(), SIGUSR1), 0);
  ASSERT_EQ(first->handlers().size(), 1u);
  EXPECT_EQ(other.call(SYS_futex, kWord, FUTEX_WAKE_PRIVATE, 1), 0)
      << "in the handler it does not wait";
  first->return_from_handler();
  EXPECT_TRUE(first->waits());
  EXPECT_EQ(other.call(SYS_futex, kWord, FUTEX_WAKE_PRIVATE, 1), 1);
  EXPECT_EQ(first->result(), 0);
}

}  // namespace
}  // namespace uks
