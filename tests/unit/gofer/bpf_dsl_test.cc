// The seccomp policy compiler, checked with the interpreter.
#include "platform/host/bpf_dsl.h"

#include <gtest/gtest.h>
#include <linux/audit.h>

#include <random>

namespace uks::bpf {
namespace {

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW, kKill = SECCOMP_RET_KILL_PROCESS,
                   kTrap = SECCOMP_RET_TRAP;

TEST(BpfDsl, NumbersAndDefault) {
  Policy policy(trap());
  policy.on({0, 1, 3, 9}, allow()).on(2, error(EPERM)).on(4, notify());
  Program program = policy.compile();
  for (long nr : {0, 1, 3, 9}) EXPECT_EQ(evaluate(program, nr), kAllow) << nr;
  EXPECT_EQ(evaluate(program, 2), static_cast<uint32_t>(SECCOMP_RET_ERRNO | EPERM));
  EXPECT_EQ(evaluate(program, 4), static_cast<uint32_t>(SECCOMP_RET_USER_NOTIF));
  for (long nr : {5l, 8l, 10l, 0x40000000l, 0x40000001l, -1l})
    EXPECT_EQ(evaluate(program, nr), kTrap) << nr;
}

TEST(BpfDsl, ForeignArchitecture) {
  Policy policy(trap(), error(ENOSYS));
  policy.on(0, allow());
  seccomp_data data{};
  data.arch = AUDIT_ARCH_I386;
  EXPECT_EQ(evaluate(policy.compile(), data), static_cast<uint32_t>(SECCOMP_RET_ERRNO | ENOSYS));
}

TEST(BpfDsl, BothHalvesOfAnArgumentCount) {
  Policy policy(kill_process());
  policy.on(1, when(arg(0).equals(5), allow()));
  policy.on(2, when(arg32(0).equals(5), allow()));
  policy.on(3, when(arg(1).only(0x1'0000'0003), allow()).otherwise(trap()));
  policy.on(4, when(arg(2).within(0x1'0000'1000, 0x2'0000'0010), allow()));
  Program program = policy.compile();
  EXPECT_EQ(evaluate(program, 1, {5}), kAllow);
  EXPECT_EQ(evaluate(program, 1, {0x1'0000'0005}), kKill);
  EXPECT_EQ(evaluate(program, 2, {0x1'0000'0005}), kAllow);
  EXPECT_EQ(evaluate(program, 3, {0, 0x1'0000'0002}), kAllow);
  EXPECT_EQ(evaluate(program, 3, {0, 0x1'0000'0004}), kTrap);
  EXPECT_EQ(evaluate(program, 3, {0, 0x8'0000'0001}), kTrap);
  struct {
    uint64_t value;
    uint32_t want;
  } cases[] = {{0, kKill},
               {0x1'0000'0fff, kKill},
               {0x1'0000'1000, kAllow},
               {0x1'ffff'ffff, kAllow},
               {0x2'0000'0000, kAllow},
               {0x2'0000'000f, kAllow},
               {0x2'0000'0010, kKill},
               {0x3'0000'0000, kKill},
               {~0ull, kKill}};
  for (auto [value, want] : cases)
    EXPECT_EQ(evaluate(program, 4, {0, 0, value}), want) << std::hex << value;
}

TEST(BpfDsl, ChainsAndLogic) {
  Policy policy(kill_process());
  policy.on(7, when(arg32(0).in({1, 2}) && !arg32(1).equals(9), allow())
                   .otherwise(when(arg32(0).equals(3) || arg32(2).equals(4), error(1)))
                   .otherwise(error(2)));
  Program program = policy.compile();
  EXPECT_EQ(evaluate(program, 7, {1, 0}), kAllow);
  EXPECT_EQ(evaluate(program, 7, {2, 9}), static_cast<uint32_t>(SECCOMP_RET_ERRNO | 2));
  EXPECT_EQ(evaluate(program, 7, {3}), static_cast<uint32_t>(SECCOMP_RET_ERRNO | 1));
  EXPECT_EQ(evaluate(program, 7, {2, 9, 4}), static_cast<uint32_t>(SECCOMP_RET_ERRNO | 1));
}

TEST(BpfDsl, LongProgramsJumpFar) {
  Policy policy(kill_process());
  for (long nr = 0; nr < 300; ++nr) {
    policy.on(2 * nr, when(arg(0).equals(static_cast<uint64_t>(nr) << 33),
                           error(static_cast<uint16_t>(nr + 1))));
  }
  Program program = policy.compile();
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    long nr = static_cast<long>(random() % 700);
    uint64_t value = random() % 2 ? static_cast<uint64_t>(nr / 2) << 33 : random();
    bool hit = nr % 2 == 0 && nr < 600 && value == static_cast<uint64_t>(nr / 2) << 33;
    uint32_t want = hit ? SECCOMP_RET_ERRNO | static_cast<uint32_t>(nr / 2 + 1) : kKill;
    ASSERT_EQ(evaluate(program, nr, {value}), want) << nr << " " << value;
  }
}

}  // namespace
}  // namespace uks::bpf
