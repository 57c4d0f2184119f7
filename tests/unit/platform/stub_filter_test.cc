// The stubs' filter, interpreted: what DESIGN §3.3 lists passes, all else traps.
#include "platform/trap/stub_filter.h"

#include <asm/prctl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <csignal>
#include <map>
#include <random>
#include <set>

#include "platform/channel/slot.h"
#include "platform/host/features.h"

namespace uks {
namespace {

using Args = std::array<uint64_t, 6>;

constexpr uint64_t kIp = 0x7f12'3456'9042;
constexpr uint64_t kCopies = 0x7f12'3456'0000 + UKS_STUB_WINDOW + UKS_WINDOW_COPIES;
constexpr uint32_t kAllow = SECCOMP_RET_ALLOW, kNotify = SECCOMP_RET_USER_NOTIF,
                   kTrap = SECCOMP_RET_TRAP;
constexpr uint32_t kX32Bit = 0x40000000;

uint32_t verdict(int32_t nr, const Args& args = {}, uint64_t ip = kIp,
                 uint32_t arch = AUDIT_ARCH_X86_64) {
  static const bpf::Program program = stub_filter(kIp);
  seccomp_data data{};
  data.nr = nr;
  data.arch = arch;
  data.instruction_pointer = ip;
  for (size_t i = 0; i < args.size(); i++) data.args[i] = args[i];
  return bpf::evaluate(program, data);
}

TEST(StubFilter, ArchPrctlOnlyWithoutFsgsbase) {
  ASSERT_FALSE(mask_features("-fsgsbase"));
  const bpf::Program program = stub_filter(kIp);
  mask_features("");
  const auto with = [&](uint64_t op, uint64_t ip) {
    seccomp_data data{};
    data.nr = SYS_arch_prctl;
    data.arch = AUDIT_ARCH_X86_64;
    data.instruction_pointer = ip;
    data.args[0] = op;
    return bpf::evaluate(program, data);
  };
  for (const uint64_t op : {ARCH_SET_GS, ARCH_SET_FS, ARCH_GET_FS, ARCH_GET_GS}) {
    EXPECT_EQ(with(op, kIp), kAllow);
    EXPECT_EQ(with(op, kIp + 1), kTrap);
    EXPECT_EQ(verdict(SYS_arch_prctl, {op}), kTrap);
  }
  for (const uint64_t op : {0x1011, 0x1012, 0x2001, 0x3001, 0x5001})
    EXPECT_EQ(with(op, kIp), kTrap);  // CPUID, shadow stacks …
}

// One call of each entry that passes from the stub's own instruction, and how.
struct Entry {
  Args args;
  uint32_t want;
};
const std::map<int32_t, Entry>& entries() {
  static const std::map<int32_t, Entry> all = {
      {SYS_mmap, {{0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, ~0ull, 0}, kAllow}},
      {SYS_munmap, {{0x1000, 4096}, kAllow}},
      {SYS_mprotect, {{0x1000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC}, kAllow}},
      {SYS_mremap, {{0x1000, 4096, 8192, MREMAP_MAYMOVE}, kAllow}},
      {SYS_madvise, {{0x1000, 4096, MADV_DONTNEED}, kAllow}},
      {SYS_rt_sigreturn, {{}, kAllow}},
      {SYS_sched_yield, {{}, kAllow}},
      {SYS_clock_gettime, {{3}, kAllow}},
      {SYS_futex, {{kCopies, FUTEX_WAIT, 1, 0}, kAllow}},
      {SYS_futex, {{kCopies + 4, FUTEX_WAKE, 1, 0}, kAllow}},
      {SYS_exit, {{}, kAllow}},
      {SYS_exit_group, {{}, kAllow}},
      {SYS_prctl, {{PR_SET_PDEATHSIG, SIGKILL}, kAllow}},
      {SYS_close, {{UKS_FIRST_FD}, kAllow}},
      {SYS_close, {{UKS_FIRST_FD + UKS_SLOTS - 1}, kAllow}},
      {SYS_getppid, {{UKS_HANDOFF_MAGIC, UKS_HANDOFF}, kNotify}},
      {SYS_clone, {{CLONE_PARENT | SIGCHLD}, kNotify}},
  };
  return all;
}

TEST(StubFilter, EveryEntryPassesFromTheStub) {
  for (const auto& [nr, entry] : entries()) EXPECT_EQ(verdict(nr, entry.args), entry.want) << nr;
}

TEST(StubFilter, NothingPassesFromElsewhere) {
  const uint64_t places[] = {0,
                             kIp - 1,
                             kIp + 1,
                             kIp - 2,
                             kIp ^ (1ull << 32),
                             kIp - 0x10000,
                             kIp | (1ull << 63),
                             kIp & 0xffffffff,
                             0xffffffffff600000,
                             ~0ull};
  for (uint64_t ip : places) {
    for (int32_t nr = 0; nr <= 500; nr++) {
      const auto it = entries().find(nr);
      ASSERT_EQ(verdict(nr, it == entries().end() ? Args{} : it->second.args, ip), kTrap)
          << nr << " from " << ip;
    }
  }
}

TEST(StubFilter, NothingElsePassesFromTheStub) {
  std::mt19937_64 random(1);
  for (int32_t nr = 0; nr <= 500; nr++) {
    if (entries().contains(nr)) continue;
    ASSERT_EQ(verdict(nr), kTrap) << nr;
    for (int i = 0; i < 20; i++) {
      ASSERT_EQ(
          verdict(nr, {random(), random() % 256, random(), random() % 16, random(), random()}),
          kTrap)
          << nr;
    }
    ASSERT_EQ(verdict(nr, {UKS_HANDOFF_MAGIC, UKS_HANDOFF}), kTrap) << nr;
  }
  for (int32_t nr : {-1, INT32_MIN, INT32_MAX, 1000, 0x10000 + SYS_munmap})
    EXPECT_EQ(verdict(nr), kTrap) << nr;
}

TEST(StubFilter, OtherArchitecturesTrap) {
  for (int32_t nr = 0; nr <= 500; nr++) {
    const auto it = entries().find(nr);
    const Args args = it == entries().end() ? Args{} : it->second.args;
    ASSERT_EQ(verdict(nr, args, kIp, AUDIT_ARCH_I386), kTrap) << nr;
    ASSERT_EQ(verdict(nr, args, kIp, 0), kTrap) << nr;
    // x32 has the same architecture and a bit in the number.
    ASSERT_EQ(verdict(static_cast<int32_t>(kX32Bit | static_cast<uint32_t>(nr)), args), kTrap)
        << nr;
  }
}

TEST(StubFilter, MmapFlags) {
  const std::set<uint64_t> allowed = {
      MAP_SHARED,    MAP_PRIVATE, MAP_ANONYMOUS, MAP_FIXED,    MAP_FIXED_NOREPLACE,
      MAP_NORESERVE, MAP_STACK,   MAP_GROWSDOWN, MAP_POPULATE, MAP_32BIT};
  uint64_t all = 0;
  for (uint64_t flag : allowed) all |= flag;
  EXPECT_EQ(verdict(SYS_mmap, {0, 4096, 3, all}), kAllow);
  for (int bit = 0; bit < 64; bit++) {
    const uint64_t flag = 1ull << bit;
    EXPECT_EQ(verdict(SYS_mmap, {0, 4096, 3, flag}), allowed.contains(flag) ? kAllow : kTrap)
        << bit;
    EXPECT_EQ(verdict(SYS_mmap, {0, 4096, 3, all | flag}), all & flag ? kAllow : kTrap) << bit;
  }
  for (uint64_t flag : {MAP_HUGETLB, MAP_LOCKED, MAP_NONBLOCK, MAP_SYNC}) {
    EXPECT_EQ(verdict(SYS_mmap, {0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | flag}), kTrap) << flag;
  }
}

TEST(StubFilter, MadviseAdvice) {
  const std::set<uint64_t> allowed = {
      MADV_DONTNEED,   MADV_FREE,          MADV_WILLNEED,      MADV_NORMAL,   MADV_RANDOM,
      MADV_SEQUENTIAL, MADV_HUGEPAGE,      MADV_NOHUGEPAGE,    MADV_DONTFORK, MADV_DOFORK,
      MADV_WIPEONFORK, MADV_KEEPONFORK,    MADV_DONTDUMP,      MADV_DODUMP,   MADV_COLD,
      MADV_PAGEOUT,    MADV_POPULATE_READ, MADV_POPULATE_WRITE};
  for (uint64_t advice = 0; advice < 256; advice++) {
    const uint32_t want = allowed.contains(advice) ? kAllow : kTrap;
    EXPECT_EQ(verdict(SYS_madvise, {0, 4096, advice}), want) << advice;
    // The kernel takes an int: its upper half means nothing, to the filter as well.
    EXPECT_EQ(verdict(SYS_madvise, {0, 4096, advice | 1ull << 32}), want) << advice;
  }
  for (uint64_t advice : {MADV_REMOVE, MADV_MERGEABLE, MADV_HWPOISON, 101}) {
    EXPECT_EQ(verdict(SYS_madvise, {0, 4096, advice}), kTrap) << advice;
  }
  EXPECT_EQ(verdict(SYS_madvise, {0, 4096, 0xffffffff}), kTrap);
}

TEST(StubFilter, PrctlIsTheKillSwitchAlone) {
  for (uint64_t option = 0; option < 128; option++) {
    EXPECT_EQ(verdict(SYS_prctl, {option, SIGKILL}), option == PR_SET_PDEATHSIG ? kAllow : kTrap)
        << option;
  }
  for (uint64_t signo = 0; signo < 65; signo++) {
    EXPECT_EQ(verdict(SYS_prctl, {PR_SET_PDEATHSIG, signo}), signo == SIGKILL ? kAllow : kTrap)
        << signo;
  }
  EXPECT_EQ(verdict(SYS_prctl, {PR_SET_PDEATHSIG, SIGKILL | 1ull << 32}), kTrap);
}

TEST(StubFilter, CloseRemovesDonatedDescriptorsAlone) {
  EXPECT_EQ(verdict(SYS_close, {0}), kTrap);  // the socket of a traced stub
  for (uint64_t fd = 1; fd < 2 * UKS_SLOTS; fd++) {
    EXPECT_EQ(verdict(SYS_close, {fd}), fd < UKS_FIRST_FD + UKS_SLOTS ? kAllow : kTrap) << fd;
  }
  EXPECT_EQ(verdict(SYS_close, {0xffffffff}), kTrap);
}

TEST(StubFilter, FutexesAreTheWordsOfCopying) {
  constexpr uint64_t kEnd = kCopies + uint64_t{UKS_SLOTS} * UKS_COPY_SIZE;
  for (uint64_t op = 0; op < 512; op++) {
    const uint32_t want = op == FUTEX_WAIT || op == FUTEX_WAKE ? kAllow : kTrap;
    EXPECT_EQ(verdict(SYS_futex, {kCopies, op, 1}), want) << op;
    EXPECT_EQ(verdict(SYS_futex, {kEnd - 4, op, 1}), want) << op;
    EXPECT_EQ(verdict(SYS_futex, {kCopies - 4, op, 1}), kTrap) << op;
    EXPECT_EQ(verdict(SYS_futex, {kEnd, op, 1}), kTrap) << op;
    EXPECT_EQ(verdict(SYS_futex, {kCopies ^ 1ull << 40, op, 1}), kTrap) << op;
    // No pointer: neither a time nor a second word.
    EXPECT_EQ(verdict(SYS_futex, {kCopies, op, 1, kCopies}), kTrap) << op;
  }
}

TEST(StubFilter, HandOffNeedsItsMagicInFull) {
  EXPECT_EQ(verdict(SYS_getppid), kTrap);
  for (int bit = 0; bit < 64; bit++)
    EXPECT_EQ(verdict(SYS_getppid, {UKS_HANDOFF_MAGIC ^ 1ull << bit}), kTrap);
  // Whatever else it says is the sentry's to judge.
  EXPECT_EQ(verdict(SYS_getppid, {UKS_HANDOFF_MAGIC, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull}), kNotify);
}

TEST(StubFilter, NoCloneIsAllowedUnasked) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 1000; i++) {
    EXPECT_EQ(verdict(SYS_clone, {random(), random(), random(), random(), random(), random()}),
              kNotify);
  }
  for (int32_t nr :
       {SYS_clone3, SYS_fork, SYS_vfork, SYS_execve, SYS_execveat, SYS_unshare, SYS_setns}) {
    EXPECT_EQ(verdict(nr), kTrap) << nr;
  }
}

// Verdicts are exactly these three: no errno is made up, nobody is killed, nothing is logged.
TEST(StubFilter, RandomCalls) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200'000; i++) {
    const auto nr = static_cast<int32_t>(random() % 512);
    const Args args{random() % 64, random() % 64, random() % 64, random(), random(), random()};
    const uint32_t got = verdict(nr, args, random() % 2 ? kIp : random());
    ASSERT_TRUE(got == kAllow || got == kNotify || got == kTrap) << nr;
    ASSERT_TRUE(got != kNotify || nr == SYS_clone || nr == SYS_getppid) << nr;
    ASSERT_TRUE(got != kAllow || entries().contains(nr)) << nr;
  }
}

}  // namespace
}  // namespace uks
