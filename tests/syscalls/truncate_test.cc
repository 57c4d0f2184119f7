// truncate, ftruncate, fallocate.
#include <linux/falloc.h>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

class Truncate : public test::FileTest {};
ALL_FILE_SYSTEMS(Truncate);

TEST_P(Truncate, ShrinksAndGrows) {
  test::write_file(path("f"), "0123456789");
  ASSERT_OK(truncate(path("f").c_str(), 4));
  EXPECT_EQ(test::read_file(path("f")), "0123");
  ASSERT_OK(truncate(path("f").c_str(), 8));
  EXPECT_EQ(test::read_file(path("f")), std::string("0123\0\0\0\0", 8));
  Fd fd(open(path("f").c_str(), O_RDWR));
  ASSERT_OK(ftruncate(fd, 0));
  EXPECT_EQ(test::size_of(path("f")), 0);
  ASSERT_OK(ftruncate(fd, off_t{1} << 33));  // sparse
  EXPECT_EQ(test::size_of(path("f")), off_t{1} << 33);
  struct stat st;
  ASSERT_OK(fstat(fd, &st));
  EXPECT_LT(st.st_blocks, 1000);
  char c = 1;
  EXPECT_EQ(pread(fd, &c, 1, off_t{1} << 32), 1);
  EXPECT_EQ(c, 0);
}

TEST_P(Truncate, OffsetStaysWhereItIs) {
  test::write_file(path("f"), "0123456789");
  Fd fd(open(path("f").c_str(), O_RDWR));
  ASSERT_OK(lseek(fd, 8, SEEK_SET));
  ASSERT_OK(ftruncate(fd, 2));
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 8);
  char c;
  EXPECT_EQ(read(fd, &c, 1), 0);
  EXPECT_EQ(write(fd, "x", 1), 1);
  EXPECT_EQ(test::read_file(path("f")), std::string("01\0\0\0\0\0\0x", 9));
}

TEST_P(Truncate, DataBeyondIsGoneAfterGrowing) {
  test::write_file(path("f"), std::string(10'000, 'x'));
  Fd fd(open(path("f").c_str(), O_RDWR));
  ASSERT_OK(ftruncate(fd, 5'000));
  ASSERT_OK(ftruncate(fd, 10'000));
  EXPECT_EQ(test::read_file(path("f")), std::string(5'000, 'x') + std::string(5'000, '\0'));
}

TEST_P(Truncate, Errors) {
  test::write_file(path("f"), "x");
  Fd r(open(path("f").c_str(), O_RDONLY));
  EXPECT_ERRNO(ftruncate(r, 0), EINVAL);
  EXPECT_ERRNO(ftruncate(999, 0), EBADF);
  EXPECT_ERRNO(truncate(path("f").c_str(), -1), EINVAL);
  EXPECT_ERRNO(truncate(path("missing").c_str(), 0), ENOENT);
  EXPECT_ERRNO(truncate(dir.path().c_str(), 0), EISDIR);
  Fd w(open(path("f").c_str(), O_WRONLY));
  EXPECT_ERRNO(ftruncate(w, -1), EINVAL);
}

TEST_P(Truncate, Fallocate) {
  Fd fd(open(path("f").c_str(), O_RDWR | O_CREAT, 0600));
  if (fallocate(fd, 0, 0, 10'000) == -1 && errno == EOPNOTSUPP) return;
  EXPECT_EQ(test::size_of(path("f")), 10'000);
  EXPECT_OK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 100'000));
  EXPECT_EQ(test::size_of(path("f")), 10'000);
  ASSERT_EQ(pwrite(fd, std::string(10'000, 'x').data(), 10'000, 0), 10'000);
  EXPECT_OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096));
  EXPECT_EQ(test::read_file(path("f")),
            std::string(4096, 'x') + std::string(4096, '\0') + std::string(10'000 - 8192, 'x'));
  EXPECT_ERRNO(fallocate(fd, 0, 0, 0), EINVAL);
  EXPECT_ERRNO(fallocate(fd, 0, -1, 10), EINVAL);
  EXPECT_ERRNO(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 10), EOPNOTSUPP);
  Fd r(open(path("f").c_str(), O_RDONLY));
  EXPECT_ERRNO(fallocate(r, 0, 0, 10), EBADF);
  int fds[2];
  ASSERT_OK(pipe(fds));
  EXPECT_ERRNO(fallocate(fds[1], 0, 0, 10), ESPIPE);
  close(fds[0]);
  close(fds[1]);
}

}  // namespace
