// Signal frames: alternate stacks, faults, what a handler finds and may change, interrupted code.
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#include "tests/syscalls/signal_fixture.h"

namespace {
using test::count;
using test::g_count;
using test::g_info;
using test::g_signal;
using test::handle;
using test::handle_info;
using test::note_info;
using test::run_child;
using test::set_of;
using test::spawn;
using test::wait_for;

class SignalFrame : public test::SignalTest {};

// ---- Alternate stack.

volatile uintptr_t g_stack_address;
TEST_F(SignalFrame, AlternateStack) {
  std::vector<char> memory(64 * 1024);
  stack_t ss{}, old{};
  ss.ss_sp = memory.data();
  ss.ss_size = memory.size();
  ASSERT_OK(sigaltstack(&ss, &old));
  EXPECT_EQ(old.ss_flags, SS_DISABLE);
  handle(
      SIGUSR1,
      [](int) {
        char local;
        g_stack_address = reinterpret_cast<uintptr_t>(&local);
        stack_t inside;
        sigaltstack(nullptr, &inside);
        g_count = inside.ss_flags == SS_ONSTACK ? 1 : 2;
        stack_t off{};
        off.ss_flags = SS_DISABLE;
        g_signal = sigaltstack(&off, nullptr) == -1 && errno == EPERM ? 1 : 0;
      },
      SA_ONSTACK);
  raise(SIGUSR1);
  EXPECT_GE(g_stack_address, reinterpret_cast<uintptr_t>(memory.data()));
  EXPECT_LT(g_stack_address, reinterpret_cast<uintptr_t>(memory.data() + memory.size()));
  EXPECT_EQ(g_count, 1);
  EXPECT_EQ(g_signal, 1);
  ASSERT_OK(sigaltstack(nullptr, &old));
  EXPECT_EQ(old.ss_sp, memory.data());
  EXPECT_EQ(old.ss_flags, 0);
  ss.ss_flags = SS_DISABLE;
  ASSERT_OK(sigaltstack(&ss, nullptr));
  // Without one, SA_ONSTACK runs on the normal stack.
  g_stack_address = 0;
  raise(SIGUSR1);
  EXPECT_FALSE(g_stack_address >= reinterpret_cast<uintptr_t>(memory.data()) &&
               g_stack_address < reinterpret_cast<uintptr_t>(memory.data() + memory.size()));
}

TEST_F(SignalFrame, AlternateStackErrors) {
  char small[100];
  stack_t ss{};
  ss.ss_sp = small;
  ss.ss_size = sizeof small;
  EXPECT_ERRNO(sigaltstack(&ss, nullptr), ENOMEM);
  ss.ss_size = 64 * 1024;
  ss.ss_flags = 0x77;
  EXPECT_ERRNO(sigaltstack(&ss, nullptr), EINVAL);
  EXPECT_ERRNO(sigaltstack(test::bad_pointer<stack_t>(), nullptr), EFAULT);
}

TEST_F(SignalFrame, StackOverflowIsHandledOnTheAlternateStack) {
  EXPECT_CHILD_OK([] {
    static char memory[64 * 1024];
    stack_t ss{};
    ss.ss_sp = memory;
    ss.ss_size = sizeof memory;
    CHILD_CHECK(sigaltstack(&ss, nullptr) == 0);
    handle_info(
        SIGSEGV,
        [](int, siginfo_t* info, void*) {
          _exit(info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR ? 0 : 1);
        },
        SA_ONSTACK);
    struct Recursion {
      static int go(int n) {
        volatile char pad[4096];
        pad[0] = static_cast<char>(n);
        return n < 0 ? 0 : go(n + 1) + pad[0];
      }
    };
    return Recursion::go(1) == 0 ? 2 : 3;
  });
}

TEST_F(SignalFrame, StackOverflowWithoutOneKills) {
  int status = run_child([] {
    struct Recursion {
      static int go(int n) {
        volatile char pad[4096];
        pad[0] = static_cast<char>(n);
        return n < 0 ? 0 : go(n + 1) + pad[0];
      }
    };
    return Recursion::go(1) == 0 ? 2 : 3;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

// ---- Faults.

sigjmp_buf g_jump;
volatile greg_t g_trapno, g_err;
volatile uintptr_t g_cr2;
void jump_out(int signum, siginfo_t* info, void* context) {
  g_info = *info;
  g_signal = signum;
  auto* uc = static_cast<ucontext_t*>(context);
  g_trapno = uc->uc_mcontext.gregs[REG_TRAPNO];
  g_err = uc->uc_mcontext.gregs[REG_ERR];
  g_cr2 = uc->uc_mcontext.gregs[REG_CR2];
  siglongjmp(g_jump, 1);
}

TEST_F(SignalFrame, UnmappedIsMaperr) {
  handle_info(SIGSEGV, jump_out);
  auto* page = static_cast<volatile char*>(
      mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(const_cast<char*>(page), 4096);
  if (sigsetjmp(g_jump, 1) == 0) {
    page[123] = 1;
    FAIL() << "the write went through";
  }
  EXPECT_EQ(g_info.si_signo, SIGSEGV);
  EXPECT_EQ(g_info.si_code, SEGV_MAPERR);
  EXPECT_EQ(g_info.si_addr, page + 123);
  EXPECT_EQ(g_trapno, 14);
  EXPECT_EQ(g_err & 7, 6);  // user, write, not present
  EXPECT_EQ(g_cr2, reinterpret_cast<uintptr_t>(page + 123));
}

TEST_F(SignalFrame, ProtectedIsAccerr) {
  handle_info(SIGSEGV, jump_out);
  auto* page = static_cast<volatile char*>(
      mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (sigsetjmp(g_jump, 1) == 0) {
    page[5] = 1;
    FAIL() << "the write went through";
  }
  EXPECT_EQ(g_info.si_code, SEGV_ACCERR);
  EXPECT_EQ(g_info.si_addr, page + 5);
  munmap(const_cast<char*>(page), 4096);
}

TEST_F(SignalFrame, JumpIntoDataIsAccerr) {
  handle_info(SIGSEGV, jump_out);
  auto* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(page, 0xc3, 4096);
  if (sigsetjmp(g_jump, 1) == 0) {
    reinterpret_cast<void (*)()>(page)();
    FAIL() << "data was executed";
  }
  EXPECT_EQ(g_info.si_code, SEGV_ACCERR);
  EXPECT_EQ(g_info.si_addr, page);
  munmap(page, 4096);
}

TEST_F(SignalFrame, NonCanonicalIsAKernelFault) {
  handle_info(SIGSEGV, jump_out);
  if (sigsetjmp(g_jump, 1) == 0) {
    volatile uintptr_t address = 0x8000'0000'0000'0000;
    *reinterpret_cast<volatile char*>(address) = 1;
    FAIL() << "the write went through";
  }
  EXPECT_EQ(g_info.si_code, SI_KERNEL);
  EXPECT_EQ(g_trapno, 13);
}

TEST_F(SignalFrame, BeyondTheEndOfAFileIsSigbus) {
  handle_info(SIGBUS, jump_out);
  for (const char* base : {".", "/tmp"}) {
    test::TempDir dir(base);
    test::write_file(dir / "f", "abc");
    test::Fd fd(open((dir / "f").c_str(), O_RDWR));
    auto* page =
        static_cast<volatile char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ASSERT_NE(page, MAP_FAILED);
    EXPECT_EQ(page[0], 'a');
    g_signal = 0;
    if (sigsetjmp(g_jump, 1) == 0) {
      (void)page[4096];
      FAIL() << "a page beyond the end was readable";
    }
    EXPECT_EQ(g_signal, SIGBUS);
    EXPECT_EQ(g_info.si_code, BUS_ADRERR);
    EXPECT_EQ(g_info.si_addr, page + 4096);
    munmap(const_cast<char*>(page), 8192);
  }
}

TEST_F(SignalFrame, DivisionByZero) {
  handle_info(SIGFPE, jump_out);
  if (sigsetjmp(g_jump, 1) == 0) {
    asm volatile("xorl %%ecx, %%ecx; movl $1, %%eax; cltd; idivl %%ecx" ::: "eax", "ecx", "edx");
    FAIL() << "divided";
  }
  EXPECT_EQ(g_info.si_code, FPE_INTDIV);
  EXPECT_EQ(g_trapno, 0);
}

TEST_F(SignalFrame, IllegalInstruction) {
  handle_info(SIGILL, jump_out);
  if (sigsetjmp(g_jump, 1) == 0) {
    asm volatile("ud2");
    FAIL() << "ud2 went through";
  }
  EXPECT_EQ(g_info.si_code, ILL_ILLOPN);
  EXPECT_EQ(g_trapno, 6);
}

TEST_F(SignalFrame, Breakpoint) {
  handle_info(SIGTRAP, note_info);
  asm volatile("int3");
  EXPECT_EQ(g_count, 1);
  EXPECT_EQ(g_info.si_code, SI_KERNEL);
}

TEST_F(SignalFrame, SingleStepTrap) {
  handle_info(SIGTRAP, [](int, siginfo_t* info, void* context) {
    g_count = g_count + 1;
    g_info = *info;
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
  });
  asm volatile("pushfq; orq $0x100, (%%rsp); popfq; nop; nop" ::: "memory", "cc");
  EXPECT_EQ(g_count, 1);
  EXPECT_EQ(g_info.si_code, TRAP_TRACE);
}

TEST_F(SignalFrame, FaultWhileBlockedKills) {
  int status = run_child([] {
    handle(SIGSEGV, count);
    sigset_t set = set_of({SIGSEGV});
    sigprocmask(SIG_BLOCK, &set, nullptr);
    *test::bad_pointer<volatile int>() = 1;
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

TEST_F(SignalFrame, IgnoredFaultKills) {
  int status = run_child([] {
    signal(SIGSEGV, SIG_IGN);
    *test::bad_pointer<volatile int>() = 1;
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

TEST_F(SignalFrame, HandlerCanRepairAndResume) {
  static char* page;
  page = static_cast<char*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  handle_info(SIGSEGV, [](int, siginfo_t*, void*) {
    g_count = g_count + 1;
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
  });
  *static_cast<volatile char*>(page) = 42;
  EXPECT_EQ(page[0], 42);
  EXPECT_EQ(g_count, 1);
  munmap(page, 4096);
}

TEST_F(SignalFrame, HandlerCanChangeRegisters) {
  handle_info(SIGUSR1, [](int, siginfo_t*, void* context) {
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RBX] = 0x1234;
  });
  uint64_t rbx = 0;
  const int pid = getpid(), signum = SIGUSR1;
  asm volatile(
      "xorl %%ebx, %%ebx\n"
      "movl $62, %%eax\n"  // kill
      "syscall\n"
      "movq %%rbx, %0\n"
      : "=r"(rbx)
      : "D"(pid), "S"(signum)
      : "rax", "rbx", "rcx", "r11", "memory");
  EXPECT_EQ(rbx, 0x1234u);
}

TEST_F(SignalFrame, FloatingPointStateIsRestored) {
  handle(SIGUSR1, [](int) {
    volatile double x = 1.5;
    for (int i = 0; i < 10; i++) x = x * 1.1;
    asm volatile("pxor %%xmm0, %%xmm0; pxor %%xmm9, %%xmm9" ::: "xmm0", "xmm9");
    g_count = static_cast<int>(x);
  });
  uint64_t in[2] = {0x1111222233334444, 0x5555666677778888}, out[2] = {};
  const int pid = getpid(), signum = SIGUSR1;
  asm volatile(
      "movdqu %[in], %%xmm9\n"
      "movl $62, %%eax\n"
      "syscall\n"
      "movdqu %%xmm9, %[out]\n"
      : [out] "=m"(out)
      : "D"(pid), "S"(signum), [in] "m"(in)
      : "rax", "rcx", "r11", "memory", "xmm9");
  EXPECT_EQ(out[0], in[0]);
  EXPECT_EQ(out[1], in[1]);
}

TEST_F(SignalFrame, RunningCodeIsInterrupted) {
  handle(SIGALRM, count);
  itimerval value{};
  value.it_value.tv_usec = 20'000;
  ASSERT_OK(setitimer(ITIMER_REAL, &value, nullptr));
  const int64_t start = test::now_ns();
  while (g_count == 0 && test::now_ns() - start < 5'000 * test::kMs) {
    for (int i = 0; i < 1000; i++) asm volatile("pause");
  }
  EXPECT_EQ(g_count, 1);
  EXPECT_GE(test::now_ns() - start, 20 * test::kMs - test::kMs);
}

TEST_F(SignalFrame, PureLoopIsKilled) {
  pid_t pid = spawn([] {
    for (;;) asm volatile("pause");
    return 0;
  });
  test::sleep_ms(20);
  kill(pid, SIGTERM);
  int status = wait_for(pid);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST_F(SignalFrame, ThousandsAtRandomPoints) {
  // The sum must come out right however often the loop is interrupted.
  handle(SIGUSR1, count);
  pid_t target = getpid();
  pid_t pid = spawn([=] {
    for (int i = 0; i < 2000; i++) kill(target, SIGUSR1);
    return 0;
  });
  uint64_t sum = 0;
  int status = 0;
  uint64_t i = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    for (int k = 0; k < 1000; k++) sum += ++i;
  }
  EXPECT_EQ(sum, i * (i + 1) / 2);
  EXPECT_GT(g_count, 0);
}

TEST_F(SignalFrame, SigreturnGarbageKillsOnlyItself) {
  int status = run_child([] {
    syscall(SYS_rt_sigreturn);  // whatever the stack holds is no frame
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
}

}  // namespace
