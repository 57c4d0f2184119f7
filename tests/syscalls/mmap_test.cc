// mmap, munmap, mprotect, mremap, msync, madvise, mincore, brk, mlock.
#include <linux/mman.h>
#include <sys/mman.h>

#include <fstream>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

constexpr size_t kPage = 4096;

char* map(size_t length, int prot, int flags, int fd = -1, off_t offset = 0, void* at = nullptr) {
  return static_cast<char*>(mmap(at, length, prot, flags, fd, offset));
}
bool mapped(const void* address) {
  unsigned char vec;
  void* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) & ~(kPage - 1));
  return mincore(page, kPage, &vec) == 0;
}

TEST(MmapAnonymous, ZeroFilledAndPrivate) {
  char* p = map(3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  ASSERT_NE(p, MAP_FAILED);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % kPage, 0u);
  for (size_t i = 0; i < 3 * kPage; i += 100) ASSERT_EQ(p[i], 0);
  p[0] = 1;
  EXPECT_CHILD_OK([&] {
    CHILD_CHECK(p[0] == 1);
    p[0] = 2;
    return 0;
  });
  EXPECT_EQ(p[0], 1);
  EXPECT_OK(munmap(p, 3 * kPage));
  EXPECT_FALSE(mapped(p));
}

TEST(MmapAnonymous, SharedAcrossFork) {
  char* p = map(kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  EXPECT_CHILD_OK([&] {
    p[10] = 'x';
    return 0;
  });
  EXPECT_EQ(p[10], 'x');
  munmap(p, kPage);
}

TEST(MmapAnonymous, HolesInTheMiddle) {
  char* p = map(5 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  p[0] = p[4 * kPage] = 7;
  EXPECT_OK(munmap(p + kPage, 2 * kPage));
  EXPECT_TRUE(mapped(p));
  EXPECT_FALSE(mapped(p + kPage));
  EXPECT_TRUE(mapped(p + 3 * kPage));
  EXPECT_EQ(p[4 * kPage], 7);
  EXPECT_OK(munmap(p, 5 * kPage));  // holes are no error
}

TEST(MmapAnonymous, Huge) {
  // Address space without memory.
  constexpr size_t kLength = size_t{64} << 30;
  char* p = map(kLength, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  ASSERT_NE(p, MAP_FAILED);
  ASSERT_OK(mprotect(p + (kLength / 2), kPage, PROT_READ | PROT_WRITE));
  p[kLength / 2] = 1;
  EXPECT_OK(munmap(p, kLength));
}

TEST(MmapErrors, Arguments) {
  EXPECT_ERRNO(mmap(nullptr, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), EINVAL);
  EXPECT_ERRNO(mmap(nullptr, kPage, PROT_READ, MAP_ANONYMOUS, -1, 0), EINVAL);
  EXPECT_ERRNO(mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, -1, 0), EBADF);
  EXPECT_ERRNO(mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 100), EINVAL);
  EXPECT_ERRNO(mmap(reinterpret_cast<void*>(0x10001), kPage, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
               EINVAL);
  EXPECT_ERRNO(mmap(nullptr, SIZE_MAX - kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
               ENOMEM);
  EXPECT_ERRNO(munmap(reinterpret_cast<void*>(1), kPage), EINVAL);
  EXPECT_ERRNO(munmap(nullptr, 0), EINVAL);
  int fds[2];
  ASSERT_OK(pipe(fds));
  EXPECT_ERRNO(mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, fds[0], 0), ENODEV);
  close(fds[0]);
  close(fds[1]);
}

TEST(MmapFixed, ReplacesAndNoreplaceRefuses) {
  char* p = map(3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  memset(p, 5, 3 * kPage);
  char* q =
      map(kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0, p + kPage);
  EXPECT_EQ(q, p + kPage);
  EXPECT_EQ(p[kPage], 0);
  EXPECT_EQ(p[0], 5);
  EXPECT_EQ(p[2 * kPage], 5);
  EXPECT_ERRNO(mmap(p, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
               EEXIST);
  EXPECT_EQ(p[0], 5);
  munmap(p, 3 * kPage);
  EXPECT_EQ(map(kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0, p), p);
  munmap(p, kPage);
}

TEST(MmapFixed, HintIsTakenWhenFree) {
  char* p = map(kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS);
  munmap(p, kPage);
  EXPECT_EQ(map(kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, p), p);
  char* other = map(kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, p);
  EXPECT_NE(other, p);
  EXPECT_NE(other, MAP_FAILED);
  munmap(p, kPage);
  munmap(other, kPage);
}

TEST(Mmap32Bit, LiesBelowTwoGigabytes) {
  char* p = map(kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT);
  ASSERT_NE(p, MAP_FAILED);
  EXPECT_LT(reinterpret_cast<uintptr_t>(p), uintptr_t{1} << 31);
  munmap(p, kPage);
}

TEST(MmapGrowsDown, IsAccepted) {
  char* p =
      map(kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_GROWSDOWN);
  ASSERT_NE(p, MAP_FAILED);
  p[0] = 1;
  munmap(p, kPage);
}

class MmapFile : public test::FileTest {
 protected:
  Fd create(size_t size, char fill = 'a') {
    test::write_file(path("f"), std::string(size, fill));
    return Fd(open(path("f").c_str(), O_RDWR));
  }
};
ALL_FILE_SYSTEMS(MmapFile);

TEST_P(MmapFile, PrivateIsACopy) {
  Fd fd = create(2 * kPage);
  char* p = map(2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
  ASSERT_NE(p, MAP_FAILED);
  EXPECT_EQ(p[5], 'a');
  p[5] = 'b';
  EXPECT_EQ(test::read_file(path("f"))[5], 'a');
  munmap(p, 2 * kPage);
}

TEST_P(MmapFile, SharedWritesReachTheFile) {
  Fd fd = create(2 * kPage);
  char* p = map(2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  ASSERT_NE(p, MAP_FAILED);
  p[kPage + 3] = 'Z';
  EXPECT_EQ(test::read_file(path("f"))[kPage + 3], 'Z');
  EXPECT_OK(msync(p, 2 * kPage, MS_SYNC));
  ASSERT_EQ(pwrite(fd, "Q", 1, 7), 1);
  EXPECT_EQ(p[7], 'Q');  // coherent with write
  munmap(p, 2 * kPage);
}

TEST_P(MmapFile, SharedBetweenProcesses) {
  Fd fd = create(kPage);
  char* p = map(kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  EXPECT_CHILD_OK([&] {
    Fd mine(open(path("f").c_str(), O_RDWR));
    char* q = map(kPage, PROT_READ | PROT_WRITE, MAP_SHARED, mine);
    CHILD_CHECK(q != MAP_FAILED);
    q[100] = 'c';
    p[101] = 'd';
    return 0;
  });
  EXPECT_EQ(p[100], 'c');
  EXPECT_EQ(p[101], 'd');
  munmap(p, kPage);
}

TEST_P(MmapFile, Offsets) {
  Fd fd = create(3 * kPage);
  ASSERT_EQ(pwrite(fd, "middle", 6, 2 * kPage), 6);
  char* p = map(kPage, PROT_READ, MAP_PRIVATE, fd, 2 * kPage);
  ASSERT_NE(p, MAP_FAILED);
  EXPECT_EQ(std::string(p, 6), "middle");
  munmap(p, kPage);
  EXPECT_ERRNO(mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, fd, 5), EINVAL);
}

TEST_P(MmapFile, TailOfTheLastPageIsZero) {
  Fd fd = create(100);
  char* p = map(kPage, PROT_READ, MAP_PRIVATE, fd);
  EXPECT_EQ(p[99], 'a');
  EXPECT_EQ(p[100], 0);
  EXPECT_EQ(p[kPage - 1], 0);
  munmap(p, kPage);
}

TEST_P(MmapFile, OutlivesTheDescriptorAndTheName) {
  Fd fd = create(kPage);
  char* p = map(kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  fd.reset();
  ASSERT_OK(unlink(path("f").c_str()));
  EXPECT_EQ(p[0], 'a');
  p[0] = 'b';
  EXPECT_EQ(p[0], 'b');
  munmap(p, kPage);
}

TEST_P(MmapFile, ModesAreChecked) {
  create(kPage);
  Fd r(open(path("f").c_str(), O_RDONLY)), w(open(path("f").c_str(), O_WRONLY));
  EXPECT_ERRNO(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, r, 0), EACCES);
  EXPECT_ERRNO(mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, w, 0), EACCES);
  char* p = map(kPage, PROT_READ, MAP_SHARED, r);
  ASSERT_NE(p, MAP_FAILED);
  EXPECT_ERRNO(mprotect(p, kPage, PROT_READ | PROT_WRITE), EACCES);
  munmap(p, kPage);
  p = map(kPage, PROT_READ, MAP_PRIVATE, r);
  EXPECT_OK(mprotect(p, kPage, PROT_READ | PROT_WRITE));  // private: a copy
  p[0] = 'x';
  munmap(p, kPage);
  EXPECT_EQ(test::read_file(path("f"))[0], 'a');
  Fd path_only(open(path("f").c_str(), O_PATH));
  EXPECT_ERRNO(mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, path_only, 0), EBADF);
  Fd d(open(dir.path().c_str(), O_RDONLY));
  EXPECT_ERRNO(mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, d, 0), ENODEV);
}

TEST_P(MmapFile, GrowsWithTheFile) {
  Fd fd = create(kPage);
  char* p = map(2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  ASSERT_OK(ftruncate(fd, 2 * kPage));
  p[kPage] = 'x';
  EXPECT_EQ(test::read_file(path("f"))[kPage], 'x');
  munmap(p, 2 * kPage);
}

TEST_P(MmapFile, ShowsInMaps) {
  Fd fd = create(kPage);
  char* p = map(kPage, PROT_READ, MAP_PRIVATE, fd);
  char start[32];
  snprintf(start, sizeof start, "%lx-", reinterpret_cast<unsigned long>(p));
  std::ifstream maps("/proc/self/maps");
  std::string line, found;
  while (std::getline(maps, line)) {
    if (line.starts_with(start)) found = line;
  }
  EXPECT_NE(found.find("r--p"), std::string::npos) << found;
  EXPECT_TRUE(found.ends_with(path("f"))) << found;
  munmap(p, kPage);
}

TEST_P(MmapFile, ReadIntoAMappingOfTheSameFile) {
  Fd fd = create(2 * kPage);
  ASSERT_EQ(pwrite(fd, "source", 6, 0), 6);
  char* p = map(2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  EXPECT_EQ(pread(fd, p + kPage, 6, 0), 6);
  EXPECT_EQ(std::string(p + kPage, 6), "source");
  EXPECT_EQ(pwrite(fd, p, 6, kPage + 100), 6);
  EXPECT_EQ(std::string(p + kPage + 100, 6), "source");
  munmap(p, 2 * kPage);
}

TEST(Mprotect, ChangesAndSplits) {
  char* p = map(3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  EXPECT_OK(mprotect(p + kPage, kPage, PROT_NONE));
  int status = test::run_child([&] {
    p[0] = 1;
    p[2 * kPage] = 1;
    p[kPage] = 1;
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_OK(mprotect(p, 3 * kPage, PROT_READ | PROT_WRITE));
  p[kPage] = 1;
  EXPECT_ERRNO(mprotect(p + 1, kPage, PROT_READ), EINVAL);
  EXPECT_OK(mprotect(p, 0, PROT_READ));
  munmap(p + kPage, kPage);
  EXPECT_ERRNO(mprotect(p, 3 * kPage, PROT_READ), ENOMEM);
  munmap(p, 3 * kPage);
}

TEST(Mprotect, GeneratedCodeRuns) {
  char* p = map(kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  const unsigned char code[] = {0xb8, 0x2a, 0, 0, 0, 0xc3};  // mov $42, %eax; ret
  memcpy(p, code, sizeof code);
  ASSERT_OK(mprotect(p, kPage, PROT_READ | PROT_EXEC));
  EXPECT_EQ(reinterpret_cast<int (*)()>(p)(), 42);
  // A system call from generated code is one like any other.
  ASSERT_OK(mprotect(p, kPage, PROT_READ | PROT_WRITE));
  const unsigned char call[] = {0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3};  // getpid
  memcpy(p, call, sizeof call);
  ASSERT_OK(mprotect(p, kPage, PROT_READ | PROT_EXEC));
  EXPECT_EQ(reinterpret_cast<int (*)()>(p)(), getpid());
  // Writable and executable at once, changed while in use.
  ASSERT_OK(mprotect(p, kPage, PROT_READ | PROT_WRITE | PROT_EXEC));
  p[1] = SYS_getppid;
  EXPECT_EQ(reinterpret_cast<int (*)()>(p)(), getppid());
  munmap(p, kPage);
}

TEST(Mremap, GrowsShrinksAndMoves) {
  char* p = map(2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  p[0] = 'x';
  p[kPage] = 'y';
  char* q = static_cast<char*>(mremap(p, 2 * kPage, 100 * kPage, MREMAP_MAYMOVE));
  ASSERT_NE(q, MAP_FAILED);
  EXPECT_EQ(q[0], 'x');
  EXPECT_EQ(q[kPage], 'y');
  q[99 * kPage] = 'z';
  EXPECT_EQ(mremap(q, 100 * kPage, kPage, 0), q);
  EXPECT_FALSE(mapped(q + kPage));
  char* target = map(4 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
  EXPECT_EQ(mremap(q, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, target + kPage), target + kPage);
  EXPECT_EQ(target[kPage], 'x');
  EXPECT_FALSE(mapped(q));
  EXPECT_ERRNO(mremap(target + 1, kPage, kPage, 0), EINVAL);
  EXPECT_ERRNO(mremap(target, kPage, 0, 0), EINVAL);
  EXPECT_ERRNO(mremap(q, kPage, 2 * kPage, MREMAP_MAYMOVE), EFAULT);
  munmap(target, 4 * kPage);
}

TEST(Madvise, Advice) {
  char* p = map(4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  p[0] = 'x';
  for (int advice : {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED}) {
    EXPECT_OK(madvise(p, 4 * kPage, advice)) << advice;
  }
  EXPECT_EQ(p[0], 'x');
  EXPECT_OK(madvise(p, 4 * kPage, MADV_DONTNEED));
  EXPECT_EQ(p[0], 0);
  EXPECT_ERRNO(madvise(p, kPage, 7777), EINVAL);
  EXPECT_ERRNO(madvise(p + 1, kPage, MADV_NORMAL), EINVAL);
  munmap(p + kPage, kPage);
  EXPECT_ERRNO(madvise(p, 3 * kPage, MADV_DONTNEED), ENOMEM);
  munmap(p, 4 * kPage);
}

TEST(Madvise, DontforkAndWipeonfork) {
  char* p = map(2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  p[0] = p[kPage] = 'x';
  ASSERT_OK(madvise(p, kPage, MADV_DONTFORK));
  ASSERT_OK(madvise(p + kPage, kPage, MADV_WIPEONFORK));
  EXPECT_CHILD_OK([&] {
    CHILD_CHECK(!mapped(p));
    CHILD_CHECK(p[kPage] == 0);
    return 0;
  });
  EXPECT_EQ(p[kPage], 'x');
  munmap(p, 2 * kPage);
}

TEST(Mincore, AndMsync) {
  char* p = map(2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  p[0] = 1;
  unsigned char vec[2] = {};
  EXPECT_OK(mincore(p, 2 * kPage, vec));
  EXPECT_EQ(vec[0] & 1, 1);
  EXPECT_ERRNO(mincore(p + 1, kPage, vec), EINVAL);
  EXPECT_OK(msync(p, 2 * kPage, MS_ASYNC));
  EXPECT_ERRNO(msync(p, kPage, MS_ASYNC | MS_SYNC), EINVAL);
  munmap(p, 2 * kPage);
  EXPECT_ERRNO(mincore(p, kPage, vec), ENOMEM);
  EXPECT_ERRNO(msync(p, kPage, MS_SYNC), ENOMEM);
}

TEST(Brk, GrowsAndShrinks) {
  EXPECT_CHILD_OK([] {
    auto* start = reinterpret_cast<char*>(syscall(SYS_brk, 0));
    CHILD_CHECK(start != nullptr);
    auto* grown = reinterpret_cast<char*>(syscall(SYS_brk, start + 10 * kPage));
    CHILD_CHECK(grown == start + 10 * kPage);
    for (size_t i = 0; i < 10 * kPage; i += 1000) CHILD_CHECK(start[i] == 0);
    memset(start, 1, 10 * kPage);
    CHILD_CHECK(reinterpret_cast<char*>(syscall(SYS_brk, start)) == start);
    CHILD_CHECK(reinterpret_cast<char*>(syscall(SYS_brk, start + kPage)) == start + kPage);
    CHILD_CHECK(start[1000 + (reinterpret_cast<uintptr_t>(start) % kPage ? kPage : 0) % kPage] <=
                1);
    // Impossible wishes leave the break where it is.
    CHILD_CHECK(reinterpret_cast<char*>(syscall(SYS_brk, 1)) == start + kPage);
    CHILD_CHECK(reinterpret_cast<char*>(syscall(SYS_brk, UINT64_MAX)) == start + kPage);
    return 0;
  });
}

TEST(Brk, IsInheritedByFork) {
  EXPECT_CHILD_OK([] {
    auto* start = reinterpret_cast<char*>(syscall(SYS_brk, 0));
    CHILD_CHECK(reinterpret_cast<char*>(syscall(SYS_brk, start + kPage)) == start + kPage);
    return test::run_child([&] {
             CHILD_CHECK(reinterpret_cast<char*>(syscall(SYS_brk, 0)) == start + kPage);
             CHILD_CHECK(reinterpret_cast<char*>(syscall(SYS_brk, start + 2 * kPage)) ==
                         start + 2 * kPage);
             start[kPage] = 1;
             return 0;
           }) == 0
               ? 0
               : 1;
  });
}

TEST(Mlock, IsAccepted) {
  char* p = map(kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  EXPECT_OK(mlock(p, kPage));
  EXPECT_OK(munlock(p, kPage));
  munmap(p, kPage);
  EXPECT_ERRNO(mlock(p, kPage), ENOMEM);
  EXPECT_ERRNO(mlockall(0), EINVAL);
  EXPECT_OK(munlockall());
}

TEST(Mmap, LimitOfAddressSpace) {
  EXPECT_CHILD_OK([] {
    struct {
      uint64_t soft, hard;
    } limit{1 << 30, 1 << 30};
    CHILD_CHECK(syscall(SYS_prlimit64, 0, 9 /* RLIMIT_AS */, &limit, nullptr) == 0);
    CHILD_CHECK(mmap(nullptr, size_t{2} << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                MAP_FAILED);
    CHILD_CHECK(errno == ENOMEM);
    return 0;
  });
}

TEST(Mmap, ManySmallMappings) {
  std::vector<char*> maps;
  for (int i = 0; i < 2000; i++) {
    char* p = map(kPage, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    ASSERT_NE(p, MAP_FAILED);
    maps.push_back(p);
  }
  for (char* p : maps) ASSERT_OK(munmap(p, kPage));
}

// Memory that is no longer mapped can be had again, as often as one likes.
TEST(Mmap, SharedMemoryComesBack) {
  constexpr size_t kPiece = size_t{128} << 20;
  for (int i = 0; i < 200; i++) {
    auto* memory = static_cast<char*>(
        mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED) << i;
    memory[i] = 'x';
    ASSERT_EQ(munmap(memory, kPiece), 0);
  }
}

TEST(Mmap, MemfdsComeBack) {
  constexpr off_t kPiece = off_t{128} << 20;
  for (int i = 0; i < 100; i++) {
    test::Fd fd(memfd_create("piece", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(fd.get(), kPiece), 0);
    void* memory = mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    ASSERT_NE(memory, MAP_FAILED) << i;
    static_cast<char*>(memory)[i] = 'x';
    ASSERT_EQ(munmap(memory, kPiece), 0);
  }
}

}  // namespace
