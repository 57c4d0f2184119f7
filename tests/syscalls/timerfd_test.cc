// timerfd_create, timerfd_settime, timerfd_gettime.
#include <poll.h>
#include <sys/timerfd.h>

#include "tests/syscalls/test_util.h"

namespace {

itimerspec after_ms(int first, int interval = 0) {
  return {{interval / 1000, interval % 1000 * test::kMs}, {first / 1000, first % 1000 * test::kMs}};
}

TEST(Timerfd, FiresOnce) {
  test::Fd fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  ASSERT_GE(fd.get(), 0);
  itimerspec value = after_ms(200), left;
  const int64_t start = test::now_ns();
  ASSERT_OK(timerfd_settime(fd, 0, &value, nullptr));
  ASSERT_OK(timerfd_gettime(fd, &left));
  EXPECT_GT(left.it_value.tv_nsec, 0);
  uint64_t n = 0;
  EXPECT_EQ(read(fd, &n, 8), 8);
  EXPECT_EQ(n, 1u);
  EXPECT_GE(test::now_ns() - start, 200 * test::kMs);
  ASSERT_OK(timerfd_gettime(fd, &left));
  EXPECT_EQ(left.it_value.tv_nsec, 0);
}

TEST(Timerfd, CountsExpirations) {
  test::Fd fd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
  itimerspec value = after_ms(60'000, 5);
  ASSERT_OK(timerfd_settime(fd, 0, &value, nullptr));
  uint64_t n = 0;
  EXPECT_ERRNO(read(fd, &n, 8), EAGAIN);
  value = after_ms(5, 5);
  ASSERT_OK(timerfd_settime(fd, 0, &value, nullptr));
  test::sleep_ms(60);
  EXPECT_EQ(read(fd, &n, 8), 8);
  EXPECT_GE(n, 10u);
  EXPECT_LT(n, 1000u);
}

TEST(Timerfd, AbsoluteAndPoll) {
  test::Fd fd(timerfd_create(CLOCK_REALTIME, 0));
  itimerspec value{};
  clock_gettime(CLOCK_REALTIME, &value.it_value);
  value.it_value.tv_nsec += 20 * test::kMs;
  if (value.it_value.tv_nsec >= 1'000'000'000) {
    value.it_value.tv_sec++;
    value.it_value.tv_nsec -= 1'000'000'000;
  }
  ASSERT_OK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &value, nullptr));
  pollfd p{fd, POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 5000), 1);
  EXPECT_EQ(p.revents, POLLIN);
  // A time in the past fires at once.
  value.it_value = {1, 0};
  ASSERT_OK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &value, nullptr));
  EXPECT_EQ(poll(&p, 1, 5000), 1);
}

TEST(Timerfd, DisarmReturnsTheOld) {
  test::Fd fd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
  itimerspec value = after_ms(10'000, 1'000), off{}, old;
  ASSERT_OK(timerfd_settime(fd, 0, &value, nullptr));
  ASSERT_OK(timerfd_settime(fd, 0, &off, &old));
  EXPECT_EQ(old.it_interval.tv_sec, 1);
  EXPECT_GE(old.it_value.tv_sec, 9);
  pollfd p{fd, POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 0), 0);
}

TEST(Timerfd, Errors) {
  EXPECT_ERRNO(timerfd_create(77, 0), EINVAL);
  EXPECT_ERRNO(timerfd_create(CLOCK_MONOTONIC, 0x77), EINVAL);
  test::Fd fd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
  itimerspec bad{};
  bad.it_value.tv_nsec = 1'000'000'000;
  EXPECT_ERRNO(timerfd_settime(fd, 0, &bad, nullptr), EINVAL);
  itimerspec value = after_ms(1);
  EXPECT_ERRNO(timerfd_settime(fd, 0x80, &value, nullptr), EINVAL);
  EXPECT_ERRNO(timerfd_settime(0x7777, 0, &value, nullptr), EBADF);
  int fds[2];
  ASSERT_OK(pipe(fds));
  EXPECT_ERRNO(timerfd_settime(fds[0], 0, &value, nullptr), EINVAL);
  close(fds[0]);
  close(fds[1]);
  char small[4];
  EXPECT_ERRNO(read(fd, small, 4), EINVAL);
}

}  // namespace
