// getrandom.
#include <sys/random.h>

#include "tests/syscalls/test_util.h"

namespace {

TEST(Getrandom, FillsTheBuffer) {
  unsigned char a[256] = {}, b[256] = {};
  EXPECT_EQ(getrandom(a, sizeof a, 0), 256);
  EXPECT_EQ(getrandom(b, sizeof b, 0), 256);
  EXPECT_NE(memcmp(a, b, sizeof a), 0);
  EXPECT_EQ(getrandom(a, 16, GRND_NONBLOCK), 16);
  EXPECT_EQ(getrandom(a, 16, GRND_RANDOM), 16);
  EXPECT_EQ(getrandom(a, 16, GRND_INSECURE), 16);
  std::vector<char> big(1 << 20);
  EXPECT_EQ(getrandom(big.data(), big.size(), 0), 1 << 20);
  EXPECT_EQ(getrandom(a, 0, 0), 0);
}

TEST(Getrandom, DiffersAfterFork) {
  int fds[2];
  ASSERT_OK(pipe(fds));
  EXPECT_CHILD_OK([&] {
    unsigned char mine[32];
    CHILD_CHECK(getrandom(mine, 32, 0) == 32);
    CHILD_CHECK(write(fds[1], mine, 32) == 32);
    return 0;
  });
  unsigned char a[32], b[32];
  EXPECT_EQ(getrandom(a, 32, 0), 32);
  EXPECT_EQ(read(fds[0], b, 32), 32);
  EXPECT_NE(memcmp(a, b, 32), 0);
  close(fds[0]);
  close(fds[1]);
}

TEST(Getrandom, Errors) {
  char c;
  EXPECT_ERRNO(getrandom(&c, 1, 0x80), EINVAL);
  EXPECT_ERRNO(getrandom(&c, 1, GRND_RANDOM | GRND_INSECURE), EINVAL);
  EXPECT_ERRNO(getrandom(test::bad_pointer<char>(), 16, 0), EFAULT);
}

}  // namespace
