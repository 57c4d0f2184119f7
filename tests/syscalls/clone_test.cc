// fork, vfork, clone and clone3.
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "tests/syscalls/test_util.h"

namespace {
using test::run_child;
using test::spawn;
using test::wait_for;

TEST(Fork, ChildHasItsOwnPidAndItsParents) {
  const pid_t parent = getpid();
  EXPECT_CHILD_OK([&] {
    CHILD_CHECK(getpid() != parent);
    CHILD_CHECK(getppid() == parent);
    CHILD_CHECK(syscall(SYS_gettid) == getpid());
    return 0;
  });
}

TEST(Fork, RawForkReturnsTwice) {
  pid_t pid = syscall(SYS_fork);
  if (pid == 0) _exit(7);
  ASSERT_GT(pid, 0);
  int status = wait_for(pid);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Fork, MemoryIsCopiedNotShared) {
  int on_stack = 1;
  auto* on_heap = new int(1);
  auto* shared = static_cast<std::atomic<int>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  EXPECT_CHILD_OK([&] {
    CHILD_CHECK(on_stack == 1 && *on_heap == 1);
    on_stack = 2;
    *on_heap = 2;
    shared->store(42);
    return 0;
  });
  EXPECT_EQ(on_stack, 1);
  EXPECT_EQ(*on_heap, 1);
  EXPECT_EQ(shared->load(), 42);
  delete on_heap;
  munmap(shared, 4096);
}

TEST(Fork, DescriptorsShareTheirOffset) {
  test::TempDir dir;
  test::write_file(dir / "f", "abcdef");
  test::Fd fd(open((dir / "f").c_str(), O_RDONLY));
  EXPECT_CHILD_OK([&] {
    char c[2];
    CHILD_CHECK(read(fd, c, 2) == 2 && c[0] == 'a' && c[1] == 'b');
    return 0;
  });
  char c = 0;
  EXPECT_EQ(read(fd, &c, 1), 1);
  EXPECT_EQ(c, 'c');
}

TEST(Fork, DescriptorTableIsACopy) {
  int fds[2];
  ASSERT_OK(pipe(fds));
  EXPECT_CHILD_OK([&] {
    CHILD_CHECK(close(fds[0]) == 0);
    CHILD_CHECK(close(fds[1]) == 0);
    return 0;
  });
  EXPECT_EQ(write(fds[1], "x", 1), 1);
  close(fds[0]);
  close(fds[1]);
}

TEST(Fork, HundredsInARow) {
  for (int i = 0; i < 300; i++) {
    int status = run_child([&] { return i % 256; });
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), i % 256);
  }
}

TEST(Fork, ManyAtOnce) {
  std::vector<pid_t> pids;
  for (int i = 0; i < 50; i++) {
    pid_t pid = spawn([i] {
      test::sleep_ms(5);
      return i;
    });
    ASSERT_GT(pid, 0);
    pids.push_back(pid);
  }
  for (int i = 0; i < 50; i++) {
    int status = wait_for(pids[i]);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), i);
  }
}

TEST(Fork, NestedGenerations) {
  EXPECT_CHILD_OK([] {
    int status = run_child([] {
      int inner = run_child([] { return 3; });
      return WEXITSTATUS(inner) + 1;
    });
    return WEXITSTATUS(status) == 4 ? 0 : 1;
  });
}

TEST(Fork, OfAMultithreadedProcessKeepsOnlyTheCaller) {
  std::atomic<bool> stop{false};
  std::atomic<int> ticks{0};
  std::thread ticker([&] {
    while (!stop) {
      ticks++;
      test::sleep_ms(1);
    }
  });
  EXPECT_CHILD_OK([&] {
    test::sleep_ms(10);
    const int before = ticks;
    test::sleep_ms(20);
    CHILD_CHECK(ticks == before);  // the ticker does not exist here
    return 0;
  });
  stop = true;
  ticker.join();
}

TEST(Fork, FromAThread) {
  std::thread([] {
    const pid_t parent = getpid();
    EXPECT_CHILD_OK([&] {
      CHILD_CHECK(syscall(SYS_gettid) == getpid());
      CHILD_CHECK(getppid() == parent);
      return 0;
    });
  }).join();
}

TEST(Vfork, ParentWaitsForExit) {
  volatile int shared = 0;
  pid_t pid = vfork();
  if (pid == 0) {
    shared = 5;  // the same address space
    _exit(9);
  }
  ASSERT_GT(pid, 0);
  EXPECT_EQ(shared, 5);
  int status = wait_for(pid);
  EXPECT_EQ(WEXITSTATUS(status), 9);
}

TEST(Vfork, ParentWaitsForExec) {
  for (int i = 0; i < 20; i++) {
    pid_t pid = vfork();
    if (pid == 0) {
      execl("/bin/true", "true", nullptr);
      _exit(127);
    }
    ASSERT_GT(pid, 0);
    EXPECT_EQ(wait_for(pid), 0);
  }
}

TEST(Vfork, KilledChildDoesNotTakeTheParentAlong) {
  pid_t pid = vfork();
  if (pid == 0) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    _exit(0);
  }
  ASSERT_GT(pid, 0);
  int status = wait_for(pid);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

struct CloneStack {
  CloneStack() : memory(new char[kSize]) {}
  ~CloneStack() { delete[] memory; }
  void* top() { return memory + kSize; }
  static constexpr size_t kSize = 256 * 1024;
  char* memory;
};

TEST(Clone, SharedDescriptorTable) {
  int fds[2];
  ASSERT_OK(pipe(fds));
  CloneStack stack;
  int fd = fds[0];
  pid_t pid = clone(
      [](void* arg) {
        close(*static_cast<int*>(arg));
        return 0;
      },
      stack.top(), CLONE_FILES | SIGCHLD, &fd);
  ASSERT_GT(pid, 0);
  EXPECT_EQ(wait_for(pid), 0);
  EXPECT_ERRNO(close(fds[0]), EBADF);  // closed by the child in the common table
  close(fds[1]);
}

TEST(Clone, SharedFsContext) {
  test::TempDir dir;
  test::Fd back(open(".", O_RDONLY | O_DIRECTORY));
  CloneStack stack;
  std::string path = dir.path();
  pid_t pid = clone([](void* arg) { return chdir(static_cast<char*>(arg)) == 0 ? 0 : 1; },
                    stack.top(), CLONE_FS | SIGCHLD, path.data());
  ASSERT_GT(pid, 0);
  EXPECT_EQ(wait_for(pid), 0);
  char cwd[4096];
  ASSERT_NE(getcwd(cwd, sizeof cwd), nullptr);
  EXPECT_EQ(path, cwd);
  ASSERT_OK(fchdir(back));
}

TEST(Clone, VmWithoutThread) {
  // A process of its own which shares the memory.
  static std::atomic<int> value;
  value = 0;
  CloneStack stack;
  pid_t pid = clone(
      [](void*) {
        value = static_cast<int>(syscall(SYS_getpid));
        return 0;
      },
      stack.top(), CLONE_VM | SIGCHLD, nullptr);
  ASSERT_GT(pid, 0);
  EXPECT_EQ(wait_for(pid), 0);
  EXPECT_EQ(value.load(), pid);
  EXPECT_NE(pid, getpid());
}

TEST(Clone, ParentSetTid) {
  int tid = 0;
  pid_t pid = syscall(SYS_clone, CLONE_PARENT_SETTID | SIGCHLD, nullptr, &tid, nullptr, 0);
  if (pid == 0) _exit(0);
  ASSERT_GT(pid, 0);
  EXPECT_EQ(tid, pid);
  EXPECT_EQ(wait_for(pid), 0);
}

TEST(Clone, ChildSetTid) {
  auto* tid = static_cast<int*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  pid_t pid = syscall(SYS_clone, CLONE_CHILD_SETTID | SIGCHLD, nullptr, nullptr, tid, 0);
  if (pid == 0) _exit(*tid == syscall(SYS_getpid) ? 0 : 1);
  ASSERT_GT(pid, 0);
  EXPECT_EQ(wait_for(pid), 0);
  EXPECT_EQ(*tid, pid);
  munmap(tid, 4096);
}

TEST(Clone, ExitSignalIsTheOneAskedFor) {
  test::MaskGuard guard;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  pid_t pid = syscall(SYS_clone, SIGUSR2, nullptr, nullptr, nullptr, 0);
  if (pid == 0) _exit(3);
  ASSERT_GT(pid, 0);
  siginfo_t info{};
  timespec limit{10, 0};
  EXPECT_EQ(sigtimedwait(&set, &info, &limit), SIGUSR2);
  EXPECT_EQ(info.si_pid, pid);
  // A child without SIGCHLD as its exit signal is seen only with __WALL or __WCLONE.
  EXPECT_ERRNO(waitpid(pid, nullptr, 0), ECHILD);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, __WALL), pid);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(Clone, BadFlagCombinations) {
  EXPECT_ERRNO(syscall(SYS_clone, CLONE_THREAD | SIGCHLD, 0, 0, 0, 0), EINVAL);
  EXPECT_ERRNO(syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0), EINVAL);
  EXPECT_ERRNO(syscall(SYS_clone, CLONE_FS | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0), EINVAL);
}

TEST(Clone3, ForksLikeFork) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  pid_t pid = syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) _exit(4);
  if (pid < 0 && errno == ENOSYS) return;  // old container profiles: libc copes
  ASSERT_GT(pid, 0);
  EXPECT_EQ(WEXITSTATUS(wait_for(pid)), 4);
}

TEST(Clone3, BadSizes) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  if (syscall(SYS_clone3, &args, 0) == -1 && errno == ENOSYS) return;
  EXPECT_ERRNO(syscall(SYS_clone3, &args, 63), EINVAL);
  EXPECT_ERRNO(syscall(SYS_clone3, &args, 5000), E2BIG);
  EXPECT_ERRNO(syscall(SYS_clone3, nullptr, sizeof args), EFAULT);
  args.exit_signal = 1000;
  EXPECT_ERRNO(syscall(SYS_clone3, &args, sizeof args), EINVAL);
}

TEST(Thread, TwoHundredRunAndJoin) {
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  threads.reserve(200);
  for (int i = 0; i < 200; i++) threads.emplace_back([&sum, i] { sum += i; });
  for (auto& t : threads) t.join();
  EXPECT_EQ(sum, 199 * 200 / 2);
}

TEST(Thread, TwoHundredAliveAtOnce) {
  std::atomic<int> arrived{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 200; i++) {
    threads.emplace_back([&] {
      arrived++;
      while (!go) test::sleep_ms(1);
    });
  }
  EXPECT_TRUE(test::eventually([&] { return arrived == 200; }, 20'000));
  go = true;
  for (auto& t : threads) t.join();
}

TEST(Thread, SharesPidHasItsOwnTid) {
  const pid_t pid = getpid();
  pid_t tid = 0;
  std::thread([&] {
    EXPECT_EQ(getpid(), pid);
    tid = syscall(SYS_gettid);
  }).join();
  EXPECT_NE(tid, pid);
  EXPECT_GT(tid, 0);
}

TEST(Thread, CreatedAndJoinedInALoop) {
  for (int i = 0; i < 500; i++) {
    bool ran = false;
    std::thread([&] { ran = true; }).join();
    ASSERT_TRUE(ran);
  }
}

TEST(Thread, ExitOfTheLeaderLeavesTheOthersRunning) {
  int status = run_child([] {
    pthread_t self = pthread_self();
    static pthread_t leader;
    leader = self;
    std::thread([] {
      pthread_join(leader, nullptr);
      test::sleep_ms(20);
      _exit(12);
    }).detach();
    syscall(SYS_exit, 0);
    return 1;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 12);
}

TEST(Thread, ExitGroupEndsAllThreads) {
  int status = run_child([] {
    for (int i = 0; i < 10; i++) {
      std::thread([] {
        for (;;) pause();
      }).detach();
    }
    std::thread([] {
      for (;;) asm volatile("pause");  // never enters the kernel
    }).detach();
    test::sleep_ms(20);
    syscall(SYS_exit_group, 21);
    return 1;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 21);
}

TEST(Thread, VectorRegistersSurviveCalls) {
  // The kernel, and so the stub, must not touch them.
  EXPECT_CHILD_OK([] {
    unsigned char in[16], out[16];
    for (int i = 0; i < 16; i++) in[i] = static_cast<unsigned char>(i * 7 + 1);
    for (int round = 0; round < 100; round++) {
      long nr = round % 2 ? SYS_getppid : SYS_sched_yield;
      long result;
      asm volatile(
          "movdqu %[in], %%xmm7\n"
          "syscall\n"
          "movdqu %%xmm7, %[out]\n"
          : "=a"(result), [out] "=m"(out)
          : "a"(nr), [in] "m"(in)
          : "rcx", "r11", "memory", "xmm7");
      CHILD_CHECK(memcmp(in, out, 16) == 0);
    }
    return 0;
  });
}

TEST(Syscall, PreservesAllButThreeRegisters) {
  EXPECT_CHILD_OK([] {
    long result;
    register uint64_t in_r10 asm("r10") = 0x1010;
    register uint64_t in_r8 asm("r8") = 0x8888;
    register uint64_t in_r9 asm("r9") = 0x9999;
    uint64_t in_rdi = 0xd1d1, in_rsi = 0x5151, in_rdx = 0xd2d2;
    asm volatile("syscall"
                 : "=a"(result), "+D"(in_rdi), "+S"(in_rsi), "+d"(in_rdx), "+r"(in_r10),
                   "+r"(in_r8), "+r"(in_r9)
                 : "a"(SYS_getuid)
                 : "rcx", "r11", "memory");
    CHILD_CHECK(in_rdi == 0xd1d1 && in_rsi == 0x5151 && in_rdx == 0xd2d2);
    CHILD_CHECK(in_r10 == 0x1010 && in_r8 == 0x8888 && in_r9 == 0x9999);
    CHILD_CHECK(result == static_cast<long>(getuid()));
    return 0;
  });
}

TEST(Syscall, RedZoneSurvives) {
  EXPECT_CHILD_OK([] {
    uint64_t ok = 0;
    asm volatile(
        "movq $0x1122334455667788, %%rax\n"
        "movq %%rax, -8(%%rsp)\n"
        "movq %%rax, -128(%%rsp)\n"
        "movl $39, %%eax\n"  // getpid
        "syscall\n"
        "movq $0x1122334455667788, %%rax\n"
        "xorl %%ecx, %%ecx\n"
        "cmpq %%rax, -8(%%rsp)\n"
        "jne 1f\n"
        "cmpq %%rax, -128(%%rsp)\n"
        "jne 1f\n"
        "movl $1, %%ecx\n"
        "1: movq %%rcx, %0\n"
        : "=r"(ok)
        :
        : "rax", "rcx", "r11", "memory", "cc");
    CHILD_CHECK(ok == 1);
    return 0;
  });
}

}  // namespace
