// The bound on log lines that guests cause.
#include "platform/base/log.h"

#include <gtest/gtest.h>

namespace uks {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(LogBudget, BurstThenOneAPeriod) {
  LogBudget budget(3, kSecond);
  int64_t now = 100 * kSecond;
  for (int i = 0; i < 3; i++) EXPECT_EQ(budget.take(now), 0);
  for (int i = 0; i < 7; i++) EXPECT_EQ(budget.take(now + i), -1);
  now += kSecond;
  EXPECT_EQ(budget.take(now), 7);
  EXPECT_EQ(budget.take(now), -1);
  now += kSecond;
  EXPECT_EQ(budget.take(now), 1);
}

TEST(LogBudget, RestRefillsTheBurst) {
  LogBudget budget(2, kSecond);
  for (int i = 0; i < 5; i++) (void)budget.take(kSecond);
  EXPECT_EQ(budget.take(1000 * kSecond), 3);
  EXPECT_EQ(budget.take(1000 * kSecond), 0);
  EXPECT_EQ(budget.take(1000 * kSecond), -1);
}

}  // namespace
}  // namespace uks
