// The devices that every program expects.
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <algorithm>

#include "tests/syscalls/test_util.h"

namespace {

TEST(Devices, HaveTheirNumbers) {
  const std::tuple<const char*, unsigned, unsigned> devices[] = {
      {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
      {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
  for (const auto& [name, major_number, minor_number] : devices) {
    struct stat st;
    ASSERT_OK(stat((std::string("/dev/") + name).c_str(), &st)) << name;
    EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFCHR | 0666)) << name;
    EXPECT_EQ(st.st_rdev, makedev(major_number, minor_number)) << name;
  }
}

TEST(Devices, Null) {
  test::Fd fd(open("/dev/null", O_RDWR | O_CREAT | O_TRUNC, 0600));
  ASSERT_GE(fd.get(), 0);
  char buffer[16];
  EXPECT_EQ(read(fd, buffer, sizeof buffer), 0);
  EXPECT_EQ(write(fd, buffer, sizeof buffer), 16);
  // Nobody looks at the bytes.
  EXPECT_EQ(write(fd, test::bad_pointer<char>(), 1000), 1000);
  EXPECT_EQ(lseek(fd, 100, SEEK_SET), 0);
  test::Fd epoll(epoll_create1(0));
  epoll_event event{};
  EXPECT_ERRNO(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), EPERM);
}

TEST(Devices, ZeroAndFull) {
  test::Fd zero(open("/dev/zero", O_RDWR));
  std::string buffer(300'000, 'x');
  EXPECT_EQ(read(zero, buffer.data(), buffer.size()), 300'000);
  EXPECT_TRUE(std::ranges::all_of(buffer, [](char c) { return c == 0; }));
  EXPECT_EQ(write(zero, "abc", 3), 3);
  test::Fd full(open("/dev/full", O_RDWR));
  EXPECT_EQ(read(full, buffer.data(), 10), 10);
  EXPECT_ERRNO(write(full, "abc", 3), ENOSPC);
}

TEST(Devices, ZeroCanBeMapped) {
  test::Fd zero(open("/dev/zero", O_RDWR));
  auto* own = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0));
  auto* shared =
      static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, zero, 0));
  auto* other =
      static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, zero, 0));
  ASSERT_NE(own, MAP_FAILED);
  ASSERT_NE(shared, MAP_FAILED);
  ASSERT_NE(other, MAP_FAILED);
  EXPECT_CHILD_OK([&] {
    own[0] = shared[0] = 'c';
    return 0;
  });
  EXPECT_EQ(own[0], 0);
  EXPECT_EQ(shared[0], 'c');
  // Each shared mapping is an object of its own.
  EXPECT_EQ(other[0], 0);
}

TEST(Devices, Random) {
  for (const char* name : {"/dev/random", "/dev/urandom"}) {
    test::Fd fd(open(name, O_RDONLY));
    std::string a(100'000, '\0'), b(100'000, '\0');
    EXPECT_EQ(read(fd, a.data(), a.size()), 100'000);
    EXPECT_EQ(read(fd, b.data(), b.size()), 100'000);
    EXPECT_NE(a, b);
  }
}

TEST(Devices, StandardStreams) {
  int ends[2];
  ASSERT_OK(pipe(ends));
  test::Fd reader(ends[0]), writer(ends[1]);
  EXPECT_CHILD_OK([&] {
    CHILD_CHECK(dup2(writer, 1) == 1);
    test::Fd out(open("/dev/stdout", O_WRONLY | O_CREAT | O_TRUNC, 0666));
    CHILD_CHECK(out.get() >= 0);
    CHILD_CHECK(write(out, "x", 1) == 1);
    return 0;
  });
  char c = 0;
  EXPECT_EQ(read(reader, &c, 1), 1);
  EXPECT_EQ(c, 'x');
  const test::TempDir dir("/tmp");
  test::write_file(dir / "f", "from a file");
  EXPECT_CHILD_OK([&] {
    test::Fd in(open((dir / "f").c_str(), O_RDONLY));
    CHILD_CHECK(dup2(in, 0) == 0);
    CHILD_CHECK(test::read_file("/dev/stdin") == "from a file");
    CHILD_CHECK(test::read_file("/dev/fd/0") == "from a file");
    return 0;
  });
}

TEST(Devices, SharedMemoryDirectory) {
  struct stat st;
  ASSERT_OK(stat("/dev/shm", &st));
  EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFDIR | 01777));
  const std::string name = "/dev/shm/uks-test-" + std::to_string(getpid());
  test::write_file(name, "shared");
  EXPECT_EQ(test::read_file(name), "shared");
  EXPECT_OK(unlink(name.c_str()));
}

}  // namespace
