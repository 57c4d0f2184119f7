// Timers: the queue, and descriptors that count expiries.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "sentry/fs/timerfd/timerfd.h"
#include "sentry/time/clock.h"
#include "tests/unit/ipc/fixture.h"

namespace uks {
namespace {

class Recorder final : public Timer {
 public:
  Recorder(TimerQueue& queue, std::function<void()> f) : Timer(queue), f_(std::move(f)) {}
  void on_expire() override { f_(); }

 private:
  std::function<void()> f_;
};

TEST(TimerQueue, FiresInOrderAndAllowsRearming) {
  TimerQueue queue;
  std::vector<int> fired;
  Recorder late(queue, [&] { fired.push_back(2); });
  Recorder early(queue, [&] {
    fired.push_back(1);
    if (fired.size() < 2) early.arm(15);
  });
  late.arm(20);
  early.arm(10);
  queue.run(9);
  EXPECT_TRUE(fired.empty());
  queue.run(30);
  EXPECT_EQ(fired, (std::vector<int>{1, 1, 2}));
  EXPECT_FALSE(late.armed());
}

TEST(TimerFd, CountsPeriodsWhenRead) {
  OneTask one;
  auto timer = make_ref<TimerFd>(one.kernel.timers, CLOCK_MONOTONIC, O_RDWR, nullptr);
  const int64_t now = monotonic_now();
  constexpr int64_t kPeriod = 10 * kNsPerSecond;
  // First expiry three and a half periods ago: four are due.
  if (now < 4 * kPeriod) GTEST_SKIP() << "the machine has just started";
  timer->set(now - 3 * kPeriod - kPeriod / 2, kPeriod, true);
  one.kernel.timers.run(monotonic_now());
  EXPECT_EQ(timer->poll_events(), uint32_t{EPOLLIN | EPOLLRDNORM});
  uint64_t count = 0;
  BufferSink sink{std::span<char>(reinterpret_cast<char*>(&count), sizeof count)};
  ASSERT_TRUE(timer->read(*one.task, sink));
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(timer->poll_events(), 0u);
  EXPECT_GT(timer->remaining(), 0);
  EXPECT_LE(timer->remaining(), kPeriod);
}

TEST(Clock, DeadlinesSaturate) {
  EXPECT_EQ(deadline_from_relative({.tv_sec = INT64_MAX, .tv_nsec = 0}), INT64_MAX);
  EXPECT_FALSE(is_valid({.tv_sec = 0, .tv_nsec = kNsPerSecond}));
  EXPECT_FALSE(is_valid({.tv_sec = -1, .tv_nsec = 0}));
}

}  // namespace
}  // namespace uks
