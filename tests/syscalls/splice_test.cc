// sendfile, copy_file_range, splice, tee.
#include <sys/sendfile.h>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

class Copy : public test::FileTest {
 protected:
  void SetUp() override {
    for (int i = 0; i < 20'000; i++) data += static_cast<char>(i * 7);
    test::write_file(path("in"), data);
    in = Fd(open(path("in").c_str(), O_RDONLY));
    out = Fd(open(path("out").c_str(), O_RDWR | O_CREAT, 0600));
  }
  std::string data;
  Fd in, out;
};
ALL_FILE_SYSTEMS(Copy);

TEST_P(Copy, Sendfile) {
  EXPECT_EQ(sendfile(out, in, nullptr, 5'000), 5'000);
  EXPECT_EQ(lseek(in, 0, SEEK_CUR), 5'000);
  off_t offset = 10'000;
  EXPECT_EQ(sendfile(out, in, &offset, 100'000), 10'000);
  EXPECT_EQ(offset, 20'000);
  EXPECT_EQ(lseek(in, 0, SEEK_CUR), 5'000);
  EXPECT_EQ(test::read_file(path("out")), data.substr(0, 5'000) + data.substr(10'000));
  EXPECT_ERRNO(sendfile(in, out, nullptr, 1), EBADF);
  EXPECT_ERRNO(sendfile(999, in, nullptr, 1), EBADF);
}

TEST_P(Copy, SendfileToAPipe) {
  int fds[2];
  ASSERT_OK(pipe(fds));
  EXPECT_EQ(sendfile(fds[1], in, nullptr, 1'000), 1'000);
  std::string got(1'000, 0);
  EXPECT_EQ(read(fds[0], got.data(), 1'000), 1'000);
  EXPECT_EQ(got, data.substr(0, 1'000));
  EXPECT_ERRNO(sendfile(out, fds[0], nullptr, 10), EINVAL);
  close(fds[0]);
  close(fds[1]);
}

TEST_P(Copy, CopyFileRange) {
  off_t from = 100, to = 50;
  EXPECT_EQ(copy_file_range(in, &from, out, &to, 1'000, 0), 1'000);
  EXPECT_EQ(from, 1'100);
  EXPECT_EQ(to, 1'050);
  EXPECT_EQ(test::read_file(path("out")), std::string(50, '\0') + data.substr(100, 1'000));
  EXPECT_EQ(copy_file_range(in, nullptr, out, nullptr, 10, 0), 10);
  EXPECT_EQ(lseek(out, 0, SEEK_CUR), 10);
  from = 20'000;
  EXPECT_EQ(copy_file_range(in, &from, out, nullptr, 10, 0), 0);
  EXPECT_ERRNO(copy_file_range(in, nullptr, out, nullptr, 10, 1), EINVAL);
  EXPECT_ERRNO(copy_file_range(out, nullptr, in, nullptr, 10, 0), EBADF);
  Fd append(open(path("out").c_str(), O_WRONLY | O_APPEND));
  EXPECT_ERRNO(copy_file_range(in, nullptr, append, nullptr, 10, 0), EBADF);
  Fd d(open(dir.path().c_str(), O_RDONLY));
  EXPECT_ERRNO(copy_file_range(d, nullptr, out, nullptr, 10, 0), EISDIR);
}

TEST_P(Copy, Splice) {
  int fds[2];
  ASSERT_OK(pipe(fds));
  loff_t offset = 10;
  EXPECT_EQ(splice(in, &offset, fds[1], nullptr, 500, 0), 500);
  EXPECT_EQ(offset, 510);
  EXPECT_EQ(splice(fds[0], nullptr, out, nullptr, 500, 0), 500);
  EXPECT_EQ(test::read_file(path("out")), data.substr(10, 500));
  EXPECT_ERRNO(splice(in, nullptr, out, nullptr, 10, 0), EINVAL);
  EXPECT_ERRNO(splice(fds[0], nullptr, out, nullptr, 10, SPLICE_F_NONBLOCK), EAGAIN);
  close(fds[1]);
  EXPECT_EQ(splice(fds[0], nullptr, out, nullptr, 10, 0), 0);
  close(fds[0]);
}

TEST(Tee, Duplicates) {
  int a[2], b[2];
  ASSERT_OK(pipe(a));
  ASSERT_OK(pipe(b));
  ASSERT_EQ(write(a[1], "data", 4), 4);
  EXPECT_EQ(tee(a[0], b[1], 100, 0), 4);
  char buffer[5] = {};
  EXPECT_EQ(read(b[0], buffer, 4), 4);
  EXPECT_STREQ(buffer, "data");
  EXPECT_EQ(read(a[0], buffer, 4), 4);
  for (int fd : {a[0], a[1], b[0], b[1]}) close(fd);
}

}  // namespace
