// Memory that the kernel reads and writes in the middle of calls: of several threads at once, of
// other processes. Also run by copy orders alone (list_cases.py).
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/syscalls/test_util.h"

namespace {

bool all_are(const std::vector<char>& bytes, char c) {
  return std::all_of(bytes.begin(), bytes.end(), [c](char b) { return b == c; });
}

// One thread reads a file in pieces of `size`, another writes and reads its own bytes: each has
// what is its own, whole.
void read_beside_writes(size_t size) {
  const test::TempDir dir;
  const std::string path = dir / "file";
  test::write_file(path, std::string(10 * size, 'X'));
  std::atomic<bool> stop = false;
  std::thread other([&] {
    const test::Fd file(memfd_create("other", 0));
    std::vector<char> source(16000, 'Y'), back(16000);
    while (!stop) {
      iovec part{source.data(), source.size()};
      ASSERT_EQ(pwritev(file, &part, 1, 0), 16000);
      std::fill(back.begin(), back.end(), '\0');
      ASSERT_EQ(pread(file, back.data(), back.size(), 0), 16000);
      ASSERT_TRUE(all_are(back, 'Y'));
    }
  });
  const test::Fd file(open(path.c_str(), O_RDONLY));
  std::vector<char> bytes(size);
  for (int i = 0; i < 200; i++) {
    // Out of the page cache now and then, so that the kernel has to wait for them.
    if (i % 20 == 0) {
      EXPECT_OK(fsync(file));
      (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    }
    std::fill(bytes.begin(), bytes.end(), '\0');
    EXPECT_EQ(pread(file, bytes.data(), size, static_cast<off_t>(i % 10 * size)),
              static_cast<ssize_t>(size));
    EXPECT_TRUE(all_are(bytes, 'X'));
  }
  stop = true;
  other.join();
}
TEST(GuestMemory, ThreadsHaveTheirOwnBytes) { read_beside_writes(60'000); }
TEST(GuestMemory, ThreadsHaveTheirOwnBytesInBigCalls) { read_beside_writes(100'000); }

TEST(GuestMemory, ManyPieces) {
  const test::Fd file(memfd_create("pieces", 0));
  std::vector<char> bytes(300'000), back(300'000);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<char>(i * 7);
  std::vector<iovec> out, in;
  for (size_t at = 0; at < bytes.size(); at += 1000) {
    out.push_back({bytes.data() + at, 1000});
    in.push_back({back.data() + at, 1000});
  }
  EXPECT_EQ(pwritev(file, out.data(), static_cast<int>(out.size()), 0), 300'000);
  EXPECT_EQ(preadv(file, in.data(), static_cast<int>(in.size()), 0), 300'000);
  EXPECT_EQ(bytes, back);
}

// Bad addresses in what does not fit a hand-off.
TEST(GuestMemory, FaultsAreSeen) {
  const test::Fd file(memfd_create("faults", 0));
  EXPECT_ERRNO(pwrite(file, test::bad_pointer<char>(), 100'000, 0), EFAULT);
  constexpr size_t kPages = 30;
  char* memory = static_cast<char*>(
      mmap(nullptr, kPages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_OK(munmap(memory + 20 * 4096, 10 * 4096));
  EXPECT_EQ(pwrite(file, memory, kPages * 4096, 0), 20 * 4096);
  EXPECT_OK(munmap(memory, 20 * 4096));
}

// ---- Other processes'

// The command line as the process's memory has it: its first letter is changed in place.
char first_letter_of(pid_t pid) {
  const test::Fd file(open(("/proc/" + std::to_string(pid) + "/cmdline").c_str(), O_RDONLY));
  char c = 0;
  return read(file, &c, 1) == 1 ? c : '\0';
}
void mark_command_line() {
  // The first string of the stack's argument vector, which the name points into.
  const test::Fd file(open("/proc/self/stat", O_RDONLY));
  char text[4096] = {};
  CHILD_CHECK(read(file, text, sizeof text - 1) > 0);
  const char* at = strrchr(text, ')') + 2;  // field 3
  for (int field = 3; field < 48; field++) at = strchr(at, ' ') + 1;
  char* arguments = reinterpret_cast<char*>(strtoull(at, nullptr, 10));
  CHILD_CHECK(arguments != nullptr);
  *arguments = '#';
}

TEST(GuestMemory, OfAProcessThatComputes) {
  const pid_t child = test::spawn([] {
    mark_command_line();
    for (;;) __asm__ volatile("pause");
    return 0;
  });
  EXPECT_TRUE(test::eventually([&] { return first_letter_of(child) == '#'; }));
  for (int i = 0; i < 20; i++) EXPECT_EQ(first_letter_of(child), '#');
  kill(child, SIGKILL);
  EXPECT_EQ(test::wait_for(child), SIGKILL);
}

TEST(GuestMemory, OfAProcessThatWaits) {
  const pid_t child = test::spawn([] {
    mark_command_line();
    for (;;) pause();
    return 0;
  });
  EXPECT_TRUE(test::eventually([&] { return first_letter_of(child) == '#'; }));
  for (int i = 0; i < 20; i++) EXPECT_EQ(first_letter_of(child), '#');
  // It goes on as if nothing had been.
  EXPECT_OK(kill(child, SIGTERM));
  EXPECT_EQ(test::wait_for(child), SIGTERM);
}

TEST(GuestMemory, OfAProcessThatCalls) {
  const pid_t child = test::spawn([] {
    mark_command_line();
    const test::Fd file(memfd_create("calls", 0));
    std::vector<char> bytes(100'000, 'a'), back(100'000);
    for (;;) {
      CHILD_CHECK(pwrite(file, bytes.data(), bytes.size(), 0) == 100'000);
      CHILD_CHECK(pread(file, back.data(), back.size(), 0) == 100'000);
      CHILD_CHECK(bytes == back);
    }
    return 0;
  });
  EXPECT_TRUE(test::eventually([&] { return first_letter_of(child) == '#'; }));
  for (int i = 0; i < 100; i++) EXPECT_EQ(first_letter_of(child), '#');
  kill(child, SIGKILL);
  EXPECT_EQ(test::wait_for(child), SIGKILL);
}

// Processes that read each other, both of them in the middle of calls of their own.
TEST(GuestMemory, OfEachOther) {
  const pid_t parent = getpid();
  mark_command_line();
  const pid_t child = test::spawn([&] {
    for (;;) CHILD_CHECK(first_letter_of(parent) == '#');
    return 0;
  });
  EXPECT_TRUE(test::eventually([&] { return first_letter_of(child) == '#'; }));
  for (int i = 0; i < 200; i++) EXPECT_EQ(first_letter_of(child), '#');
  kill(child, SIGKILL);
  EXPECT_EQ(test::wait_for(child), SIGKILL);
}

// While it is exec'ing and dying: some answer, always.
TEST(GuestMemory, OfProcessesThatComeAndGo) {
  std::atomic<bool> stop = false;
  std::atomic<pid_t> current = 0;
  std::thread reader([&] {
    while (!stop) {
      if (current != 0) (void)first_letter_of(current);
    }
  });
  for (int i = 0; i < 50; i++) {
    const pid_t child = test::spawn([] {
      volatile char byte = 1;
      return byte - 1;
    });
    current = child;
    EXPECT_EQ(test::wait_for(child), 0);
  }
  stop = true;
  reader.join();
}

}  // namespace
