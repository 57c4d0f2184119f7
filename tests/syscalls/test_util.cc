// The shared parts of the behaviour programs, and their main().
#include "tests/syscalls/test_util.h"

#include <dirent.h>
#include <ftw.h>
#include <limits.h>

#include <map>

namespace test {

TempDir::TempDir(const std::string& base) {
  std::string pattern = base + "/uks-test-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    fprintf(stderr, "mkdtemp %s: %s\n", pattern.c_str(), strerror(errno));
    exit(1);
  }
  path_ = pattern;
  if (path_[0] != '/') {
    char cwd[PATH_MAX];
    if (getcwd(cwd, sizeof cwd) != nullptr) path_ = std::string(cwd) + "/" + path_.substr(2);
  }
}

TempDir::~TempDir() {
  auto remove_entry = [](const char* path, const struct stat*, int type, struct FTW*) {
    if (type == FTW_DP || type == FTW_D || type == FTW_DNR) {
      rmdir(path);
    } else {
      unlink(path);
    }
    return 0;
  };
  nftw(path_.c_str(), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

pid_t spawn(const std::function<int()>& body) {
  fflush(nullptr);
  pid_t pid = fork();
  if (pid == 0) _exit(body());
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  pid_t got;
  do {
    got = waitpid(pid, &status, 0);
  } while (got < 0 && errno == EINTR);
  return got == pid ? status : -1;
}

int run_child(const std::function<int()>& body) {
  pid_t pid = spawn(body);
  return pid < 0 ? -1 : wait_for(pid);
}

void write_file(const std::string& path, std::string_view data, mode_t mode) {
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, mode));
  ASSERT_GE(fd.get(), 0) << path << ": " << strerror(errno);
  while (!data.empty()) {
    ssize_t n = write(fd, data.data(), data.size());
    ASSERT_GT(n, 0) << path << ": " << strerror(errno);
    data.remove_prefix(n);
  }
}

std::string read_file(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY));
  EXPECT_GE(fd.get(), 0) << path << ": " << strerror(errno);
  std::string data;
  char buffer[4096];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof buffer)) > 0) data.append(buffer, n);
  EXPECT_EQ(n, 0) << path << ": " << strerror(errno);
  return data;
}

bool exists(const std::string& path) {
  struct stat st;
  return lstat(path.c_str(), &st) == 0;
}

off_t size_of(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 ? st.st_size : -1;
}

int64_t now_ns(clockid_t clock) {
  timespec ts;
  clock_gettime(clock, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

void sleep_ms(int ms) {
  timespec left{ms / 1000, (ms % 1000) * kMs};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

bool eventually(const std::function<bool()>& poll, int timeout_ms) {
  const int64_t end = now_ns() + timeout_ms * kMs;
  while (!poll()) {
    if (now_ns() > end) return poll();
    sleep_ms(1);
  }
  return true;
}

std::string self_path() {
  char buffer[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", buffer, sizeof buffer);
  return n < 0 ? "" : std::string(buffer, n);
}

namespace {
std::map<std::string, Helper>& helpers() {
  static std::map<std::string, Helper> map;
  return map;
}
}  // namespace

RegisterHelper::RegisterHelper(const char* name, Helper helper) { helpers()[name] = helper; }

}  // namespace test

int main(int argc, char** argv) {
  if (argc >= 3 && strcmp(argv[1], "--helper") == 0) {
    auto it = test::helpers().find(argv[2]);
    return it == test::helpers().end() ? 99 : it->second(argc - 3, argv + 3);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
