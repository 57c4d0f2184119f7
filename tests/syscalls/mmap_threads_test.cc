// Threads of one process that map different files at the same time.
#include <sys/mman.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/syscalls/test_util.h"

namespace {

// Each thread sees the bytes of the file that it named, not those of another's.
TEST(MmapThreads, EachGetsItsOwnFile) {
  constexpr int kThreads = 6;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&wrong, t] {
      char name[] = "/tmp/mmap-threads-XXXXXX";
      const int fd = mkstemp(name);
      unlink(name);
      std::vector<char> page(4096, static_cast<char>('a' + t));
      if (fd < 0 || write(fd, page.data(), page.size()) != 4096) wrong++;
      for (int i = 0; i < 300; i++) {
        auto* p = static_cast<char*>(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
        if (p == MAP_FAILED || p[0] != 'a' + t || p[4095] != 'a' + t) wrong++;
        if (p != MAP_FAILED) munmap(p, 4096);
      }
      close(fd);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
