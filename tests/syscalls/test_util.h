// What the behaviour programs share: temporary folders, child processes, exact errno checks.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The call must return something other than -1.
#define EXPECT_OK(call) EXPECT_NE((long)(call), -1L) << #call << ": " << strerror(errno)
#define ASSERT_OK(call) ASSERT_NE((long)(call), -1L) << #call << ": " << strerror(errno)

// The call must fail with exactly this errno.
#define EXPECT_ERRNO(call, expected)                                                           \
  do {                                                                                         \
    errno = 0;                                                                                 \
    const long result_ = (long)(call); /* of integers and pointers */                          \
    const int error_ = errno;                                                                  \
    EXPECT_TRUE(result_ == -1 && error_ == (expected))                                         \
        << #call << " gave " << result_ << " (" << strerror(error_) << "), wanted " #expected; \
  } while (0)

// In a child process: ends it with status 1 and a line on stderr unless the condition holds.
#define CHILD_CHECK(condition)                                                     \
  do {                                                                             \
    if (!(condition)) {                                                            \
      dprintf(2, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
      _exit(1);                                                                    \
    }                                                                              \
  } while (0)

namespace test {

// A descriptor, closed when it goes out of scope.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  int get() const { return fd_; }
  operator int() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

// A fresh folder, removed with everything in it.
class TempDir {
 public:
  explicit TempDir(const std::string& base = ".");
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// File system tests run in each of these: the workspace (files of the host, through the gofer),
// /tmp (the sandbox's own) and /var/tmp (the overlay above the host's tree).
class FileTest : public ::testing::TestWithParam<const char*> {
 protected:
  FileTest() : dir(GetParam()) {}
  std::string path(std::string_view name) const { return dir / name; }
  TempDir dir;
};
#define ALL_FILE_SYSTEMS(suite)                                                                  \
  INSTANTIATE_TEST_SUITE_P(                                                                      \
      On, suite, ::testing::Values(".", "/tmp", "/var/tmp"), [](const auto& info) {              \
        return std::string(info.index == 0 ? "Workspace" : info.index == 1 ? "Tmp" : "Overlay"); \
      })

// Runs `body` in a forked child, whose status is what `body` returns. Gives the wait status.
int run_child(const std::function<int()>& body);
// The same, expecting exit status 0.
#define EXPECT_CHILD_OK(...)                                   \
  do {                                                         \
    const int child_status_ = ::test::run_child(__VA_ARGS__);  \
    EXPECT_EQ(child_status_, 0) << "wait status of the child"; \
  } while (0)
// Forks; the child ends with what `body` returns.
pid_t spawn(const std::function<int()>& body);
// Waits for one child. Gives the wait status, or -1.
int wait_for(pid_t pid);

// Whole files.
void write_file(const std::string& path, std::string_view data, mode_t mode = 0644);
std::string read_file(const std::string& path);
bool exists(const std::string& path);
// The size of a file, or -1.
off_t size_of(const std::string& path);

int64_t now_ns(clockid_t clock = CLOCK_MONOTONIC);
void sleep_ms(int ms);
// An address that no process has mapped; opaque to the compiler.
template <typename T>
T* bad_pointer() {
  volatile uintptr_t address = 8;
  return reinterpret_cast<T*>(address);
}
inline constexpr int64_t kMs = 1'000'000;

// Calls `poll` every millisecond until it is true or `timeout_ms` has passed. Gives its last value.
bool eventually(const std::function<bool()>& poll, int timeout_ms = 10'000);

// A blocked-signal set or handler that is put back at the end of the scope.
class MaskGuard {
 public:
  MaskGuard() { sigprocmask(SIG_SETMASK, nullptr, &old_); }
  ~MaskGuard() { sigprocmask(SIG_SETMASK, &old_, nullptr); }

 private:
  sigset_t old_;
};
class ActionGuard {
 public:
  explicit ActionGuard(int signum) : signum_(signum) { sigaction(signum, nullptr, &old_); }
  ~ActionGuard() { sigaction(signum_, &old_, nullptr); }

 private:
  int signum_;
  struct sigaction old_;
};

// The path of this very program, for tests that execute it: `argv[1]` then names one of these
// helpers.
std::string self_path();
// Helpers run in a process started with `--helper NAME ARGS...`. Gives its exit status.
using Helper = int (*)(int argc, char** argv);
struct RegisterHelper {
  RegisterHelper(const char* name, Helper helper);
};

}  // namespace test
