// execve and execveat: images, scripts, what survives, errors.
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/syscalls/test_util.h"

namespace {
using test::run_child;

// Prints its arguments, one a line.
test::RegisterHelper print_args("print_args", [](int argc, char** argv) {
  for (int i = 0; i < argc; i++) printf("%s\n", argv[i]);
  return 0;
});
// Exits with 10 + the number of arguments.
test::RegisterHelper count_args("count_args", [](int argc, char**) { return 10 + argc; });
// 0 if descriptor argv[0] is closed, else 1.
test::RegisterHelper fd_closed("fd_closed", [](int, char** argv) {
  return fcntl(atoi(argv[0]), F_GETFD) == -1 && errno == EBADF ? 0 : 1;
});
// Reports how signals SIGUSR1 (ignored?) and SIGUSR2 (default?) are set and whether SIGHUP is
// blocked.
test::RegisterHelper signal_state("signal_state", [](int, char**) {
  struct sigaction usr1, usr2;
  sigaction(SIGUSR1, nullptr, &usr1);
  sigaction(SIGUSR2, nullptr, &usr2);
  sigset_t mask;
  sigprocmask(SIG_SETMASK, nullptr, &mask);
  return (usr1.sa_handler == SIG_IGN ? 1 : 0) | (usr2.sa_handler == SIG_DFL ? 2 : 0) |
         (sigismember(&mask, SIGHUP) ? 4 : 0);
});
test::RegisterHelper pid_is("pid_is", [](int, char** argv) {
  return getpid() == atoi(argv[0]) && syscall(SYS_gettid) == getpid() ? 0 : 1;
});
test::RegisterHelper env_is("env_is", [](int, char** argv) {
  const char* value = getenv(argv[0]);
  return value != nullptr && strcmp(value, argv[1]) == 0 ? 0 : 1;
});
test::RegisterHelper comm_is("comm_is", [](int, char** argv) {
  char name[17] = {};
  prctl(PR_GET_NAME, name);
  if (strcmp(name, argv[0]) != 0) fprintf(stderr, "comm is %s\n", name);
  return strcmp(name, argv[0]) == 0 ? 0 : 1;
});

int exec_self(std::vector<std::string> words, std::vector<std::string> env = {}) {
  const std::string self = test::self_path();
  std::vector<char*> argv, envp;
  std::string helper = "--helper";
  argv.push_back(const_cast<char*>(self.c_str()));
  argv.push_back(helper.data());
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  for (auto& word : env) envp.push_back(word.data());
  envp.push_back(nullptr);
  execve(self.c_str(), argv.data(), envp.data());
  return 126;
}

// What a child writes to its standard output.
std::string output_of(const std::function<int()>& body, int* status = nullptr) {
  int fds[2];
  if (pipe(fds) != 0) return "pipe failed";
  pid_t pid = test::spawn([&] {
    dup2(fds[1], 1);
    close(fds[0]);
    close(fds[1]);
    return body();
  });
  close(fds[1]);
  std::string out;
  char buffer[4096];
  ssize_t n;
  while ((n = read(fds[0], buffer, sizeof buffer)) > 0) out.append(buffer, n);
  close(fds[0]);
  int wait_status = test::wait_for(pid);
  if (status != nullptr) *status = wait_status;
  return out;
}

TEST(Execve, PassesArguments) {
  EXPECT_EQ(output_of([] { return exec_self({"print_args", "a", "", "b c"}); }), "a\n\nb c\n");
}

TEST(Execve, PassesTheEnvironment) {
  EXPECT_CHILD_OK([] { return exec_self({"env_is", "UKS_X", "y=z"}, {"A=1", "UKS_X=y=z"}); });
}

TEST(Execve, EmptyEnvironment) {
  EXPECT_CHILD_OK([] { return exec_self({"pid_is", std::to_string(getpid())}); });
}

TEST(Execve, KeepsThePid) {
  EXPECT_CHILD_OK([] { return exec_self({"pid_is", std::to_string(getpid())}); });
}

TEST(Execve, ManyArguments) {
  EXPECT_CHILD_OK([] {
    std::vector<std::string> words{"count_args"};
    for (int i = 0; i < 5000; i++) words.push_back("argument number " + std::to_string(i));
    int status = run_child([&] { return exec_self(words); });
    return WEXITSTATUS(status) == (10 + 5000) % 256 ? 0 : 1;
  });
}

TEST(Execve, OneMebibyteOfArguments) {
  EXPECT_CHILD_OK([] {
    std::vector<std::string> words{"count_args"};
    for (int i = 0; i < 10; i++) words.emplace_back(100'000, 'x');
    int status = run_child([&] { return exec_self(words); });
    return WEXITSTATUS(status) == 20 ? 0 : 1;
  });
}

TEST(Execve, ArgumentLongerThanThirtyTwoPages) {
  EXPECT_CHILD_OK([] {
    std::string word(128 * 1024, 'x');  // with its NUL more than MAX_ARG_STRLEN
    char* argv[] = {const_cast<char*>("true"), word.data(), nullptr};
    CHILD_CHECK(execve("/bin/true", argv, environ) == -1);
    CHILD_CHECK(errno == E2BIG);
    return 0;
  });
}

TEST(Execve, ArgumentsBeyondTheStackLimit) {
  EXPECT_CHILD_OK([] {
    std::string word(100'000, 'x');
    std::vector<char*> argv(100, word.data());  // 10 MB; the limit is a quarter of 8 MiB
    argv.push_back(nullptr);
    rlimit limit{8 << 20, 8 << 20};
    CHILD_CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
    CHILD_CHECK(execve("/bin/true", argv.data(), environ) == -1);
    CHILD_CHECK(errno == E2BIG);
    return 0;
  });
}

TEST(Execve, ManyEmptyArgumentsCountToo) {
  EXPECT_CHILD_OK([] {
    std::string word;
    std::vector<char*> argv(500'000, word.data());  // 9 bytes each with their pointers
    argv.push_back(nullptr);
    rlimit limit{8 << 20, 8 << 20};
    CHILD_CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
    CHILD_CHECK(execve("/bin/true", argv.data(), environ) == -1);
    CHILD_CHECK(errno == E2BIG);
    return 0;
  });
}

// Both vectors end with their page; the next one does not exist.
TEST(Execve, VectorsMayEndWithTheirPage) {
  EXPECT_CHILD_OK([] {
    auto* pages = static_cast<char*>(
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHILD_CHECK(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    constexpr size_t kCount = 300;  // more than comes along with the call
    auto** argv = reinterpret_cast<char**>(pages + 4096) - kCount - 1;
    for (size_t i = 0; i < kCount; i++) argv[i] = const_cast<char*>("x");
    CHILD_CHECK(syscall(SYS_execve, "/bin/true", argv, argv) == 0);
    return 1;
  });
}

TEST(Execve, Errors) {
  test::TempDir dir;
  char* argv[] = {const_cast<char*>("x"), nullptr};
  EXPECT_ERRNO(execve((dir / "missing").c_str(), argv, environ), ENOENT);
  EXPECT_ERRNO(execve("", argv, environ), ENOENT);
  EXPECT_ERRNO(execve(dir.path().c_str(), argv, environ), EACCES);
  test::write_file(dir / "plain", "#!/bin/sh\n", 0644);
  EXPECT_ERRNO(execve((dir / "plain").c_str(), argv, environ), EACCES);
  test::write_file(dir / "garbage", "\x01\x02garbage", 0755);
  EXPECT_ERRNO(execve((dir / "garbage").c_str(), argv, environ), ENOEXEC);
  test::write_file(dir / "empty", "", 0755);
  EXPECT_ERRNO(execve((dir / "empty").c_str(), argv, environ), ENOEXEC);
  EXPECT_ERRNO(execve((dir / "garbage/x").c_str(), argv, environ), ENOTDIR);
  EXPECT_ERRNO(execve(test::bad_pointer<char>(), argv, environ), EFAULT);
  EXPECT_ERRNO(execve("/bin/true", test::bad_pointer<char*>(), environ), EFAULT);
  std::string longname(5000, 'a');
  EXPECT_ERRNO(execve(longname.c_str(), argv, environ), ENAMETOOLONG);
}

TEST(Execve, ElfGarbage) {
  test::TempDir dir;
  char* argv[] = {const_cast<char*>("x"), nullptr};
  // A header alone, cut short.
  test::write_file(dir / "short",
                   std::string("\x7f"
                               "ELF\x02\x01\x01",
                               7),
                   0755);
  EXPECT_ERRNO(execve((dir / "short").c_str(), argv, environ), ENOEXEC);
  // The header of a real program with another machine (AArch64) and with a 32-bit class.
  std::string elf = test::read_file("/bin/true").substr(0, 4096);
  std::string other = elf;
  other[18] = static_cast<char>(0xb7);
  test::write_file(dir / "arm", other, 0755);
  EXPECT_ERRNO(execve((dir / "arm").c_str(), argv, environ), ENOEXEC);
  // Absurd program headers: their count says 65535, or they lie beyond the end of the file.
  other = elf;
  other[56] = static_cast<char>(0xff);
  other[57] = static_cast<char>(0xff);
  test::write_file(dir / "many", other, 0755);
  EXPECT_ERRNO(execve((dir / "many").c_str(), argv, environ), ENOEXEC);
  other = elf;
  other[36] = 0x7f;  // e_phoff + 0x7f00000000
  test::write_file(dir / "far", other, 0755);
  EXPECT_EQ(execve((dir / "far").c_str(), argv, environ), -1);
  EXPECT_TRUE(errno == ENOEXEC || errno == EINVAL || errno == EIO) << errno;
}

TEST(Execve, Script) {
  test::TempDir dir;
  test::write_file(dir / "s", "#!/bin/sh\necho \"$0\" \"$@\"\nexit 3\n", 0755);
  int status = 0;
  const std::string path = dir / "s";
  std::string out = output_of(
      [&] {
        execl(path.c_str(), "ignored", "one", "two", nullptr);
        return 126;
      },
      &status);
  EXPECT_EQ(out, path + " one two\n");
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(Execve, ScriptGivesTheProcessItsName) {
  test::TempDir dir;
  const std::string path = dir / "a-script", text = "#!/bin/cat /proc/self/comm\n";
  test::write_file(path, text, 0755);
  const std::string out = output_of([&] {
    execl(path.c_str(), "x", nullptr);
    return 126;
  });
  EXPECT_EQ(out, "a-script\n" + text);
}

TEST(Execve, ScriptWithOneOptionalArgument) {
  test::TempDir dir;
  const std::string self = test::self_path();
  if (self.size() > 200) GTEST_SKIP() << "the line would be too long";
  // Everything after the interpreter is one word.
  test::write_file(dir / "s", "#! /bin/echo  a b  c  \n", 0755);
  std::string out = output_of([&] {
    execl((dir / "s").c_str(), "s", "d", nullptr);
    return 126;
  });
  EXPECT_EQ(out, "a b  c " + (dir / "s") + " d\n");
}

TEST(Execve, ScriptOfAScript) {
  test::TempDir dir;
  test::write_file(dir / "inner", "#!/bin/sh\necho inner \"$@\"\n", 0755);
  test::write_file(dir / "outer", "#!" + (dir / "inner") + "\n", 0755);
  if ((dir / "inner").size() > 120) GTEST_SKIP() << "the line would be too long";
  std::string out = output_of([&] {
    execl((dir / "outer").c_str(), "outer", "x", nullptr);
    return 126;
  });
  EXPECT_EQ(out, "inner " + (dir / "outer") + " x\n");
}

TEST(Execve, ScriptLoopIsEloop) {
  test::TempDir dir("/tmp");
  test::write_file(dir / "loop", "#!" + (dir / "loop") + "\n", 0755);
  char* argv[] = {const_cast<char*>("x"), nullptr};
  EXPECT_ERRNO(execve((dir / "loop").c_str(), argv, environ), ELOOP);
}

TEST(Execve, ScriptWithMissingInterpreter) {
  test::TempDir dir;
  test::write_file(dir / "s", "#!/nonexistent/interpreter\n", 0755);
  char* argv[] = {const_cast<char*>("x"), nullptr};
  EXPECT_ERRNO(execve((dir / "s").c_str(), argv, environ), ENOENT);
}

TEST(Execve, CloseOnExec) {
  int fds[2];
  ASSERT_OK(pipe2(fds, O_CLOEXEC));
  EXPECT_CHILD_OK([&] { return exec_self({"fd_closed", std::to_string(fds[0])}); });
  ASSERT_OK(fcntl(fds[0], F_SETFD, 0));
  int status = run_child([&] { return exec_self({"fd_closed", std::to_string(fds[0])}); });
  EXPECT_EQ(WEXITSTATUS(status), 1);
  close(fds[0]);
  close(fds[1]);
}

TEST(Execve, FailureLeavesCloseOnExecDescriptorsOpen) {
  int fds[2];
  ASSERT_OK(pipe2(fds, O_CLOEXEC));
  char* argv[] = {const_cast<char*>("x"), nullptr};
  EXPECT_ERRNO(execve("/nonexistent", argv, environ), ENOENT);
  EXPECT_OK(fcntl(fds[0], F_GETFD));
  close(fds[0]);
  close(fds[1]);
}

TEST(Execve, SignalsIgnoredStayHandledAreReset) {
  int status = run_child([] {
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, [](int) {});
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    return exec_self({"signal_state"});
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Execve, SetsTheCommandName) {
  std::string name = test::self_path();
  name = name.substr(name.rfind('/') + 1).substr(0, 15);
  EXPECT_CHILD_OK([&] {
    prctl(PR_SET_NAME, "something");
    return exec_self({"comm_is", name});
  });
}

TEST(Execve, FromAThreadEndsTheOthersAndTakesTheLeadersId) {
  EXPECT_CHILD_OK([] {
    std::thread([] {
      for (;;) asm volatile("pause");
    }).detach();
    std::thread([] {
      for (;;) pause();
    }).detach();
    std::thread([] {
      const std::string pid = std::to_string(getpid());
      _exit(exec_self({"pid_is", pid}));
    }).join();
    return 1;
  });
}

TEST(Execve, NullArgvGetsAnEmptyString) {
  // Since Linux 5.18 an empty vector becomes {""}.
  EXPECT_CHILD_OK([] {
    CHILD_CHECK(syscall(SYS_execve, "/bin/true", nullptr, nullptr) == 0);
    return 1;
  });
}

TEST(Execveat, ByDirectory) {
  test::Fd bin(open("/bin", O_RDONLY | O_DIRECTORY));
  ASSERT_GE(bin.get(), 0);
  EXPECT_CHILD_OK([&] {
    char* argv[] = {const_cast<char*>("true"), nullptr};
    syscall(SYS_execveat, bin.get(), "true", argv, environ, 0);
    return 126;
  });
}

TEST(Execveat, ByDescriptor) {
  test::Fd fd(open("/bin/true", O_PATH));
  ASSERT_GE(fd.get(), 0);
  EXPECT_CHILD_OK([&] {
    char* argv[] = {const_cast<char*>("true"), nullptr};
    syscall(SYS_execveat, fd.get(), "", argv, environ, AT_EMPTY_PATH);
    return 126;
  });
}

TEST(Execveat, OfAMemfd) {
  test::Fd memfd(memfd_create("program", MFD_CLOEXEC));
  ASSERT_GE(memfd.get(), 0);
  const std::string image = test::read_file("/bin/true");
  ASSERT_EQ(write(memfd, image.data(), image.size()), static_cast<ssize_t>(image.size()));
  EXPECT_CHILD_OK([&] {
    char* argv[] = {const_cast<char*>("true"), nullptr};
    fexecve(memfd, argv, environ);
    return 126;
  });
}

TEST(Execveat, Errors) {
  char* argv[] = {const_cast<char*>("x"), nullptr};
  EXPECT_ERRNO(syscall(SYS_execveat, 999, "true", argv, environ, 0), EBADF);
  EXPECT_ERRNO(syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, environ, 0x10), EINVAL);
  test::TempDir dir;
  ASSERT_OK(symlink("/bin/true", (dir / "link").c_str()));
  EXPECT_ERRNO(
      syscall(SYS_execveat, AT_FDCWD, (dir / "link").c_str(), argv, environ, AT_SYMLINK_NOFOLLOW),
      ELOOP);
}

TEST(Execve, ProcSelfExeIsTheProgram) {
  std::string out = output_of([] {
    execl("/bin/readlink", "readlink", "/proc/self/exe", nullptr);
    return 126;
  });
  char real[4096];
  ASSERT_NE(realpath("/bin/readlink", real), nullptr);
  EXPECT_EQ(out, std::string(real) + "\n");
}

TEST(Execve, RunsProcSelfExe) {
  EXPECT_CHILD_OK([] {
    execl("/proc/self/exe", "x", "--helper", "pid_is", std::to_string(getpid()).c_str(), nullptr);
    return 126;
  });
}

TEST(Execve, ThreeHundredInALoop) {
  for (int i = 0; i < 300; i++) {
    ASSERT_EQ(run_child([] {
                execl("/bin/true", "true", nullptr);
                return 126;
              }),
              0);
  }
}

// A program that never forks: each child shares its memory until it executes (vfork).
TEST(Execve, ThreadsSpawnAtTheSameTime) {
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&] {
      std::string self = "/proc/self/exe", mode = "--helper", helper = "count_args";
      char* argv[] = {self.data(), mode.data(), helper.data(), nullptr};
      for (int i = 0; i < 40; i++) {
        pid_t pid = -1;
        int status = -1;
        ASSERT_EQ(posix_spawn(&pid, self.c_str(), nullptr, nullptr, argv, environ), 0);
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        EXPECT_EQ(WEXITSTATUS(status), 10);
        ended++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 160);
}

TEST(Execve, WritingARunningProgramIsRefused) {
  test::TempDir dir("/tmp");
  test::write_file(dir / "sleep", test::read_file("/bin/sleep"), 0755);
  pid_t pid = test::spawn([&] {
    execl((dir / "sleep").c_str(), "sleep", "60", nullptr);
    return 126;
  });
  ASSERT_GT(pid, 0);
  EXPECT_TRUE(test::eventually([&] {
    test::Fd fd(open((dir / "sleep").c_str(), O_WRONLY));
    return fd.get() == -1 && errno == ETXTBSY;
  }));
  kill(pid, SIGKILL);
  test::wait_for(pid);
}

}  // namespace
