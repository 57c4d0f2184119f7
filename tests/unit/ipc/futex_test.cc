// Futex queues.
#include "sentry/ipc/futex.h"

#include <gtest/gtest.h>

#include "tests/unit/ipc/fixture.h"

namespace uks {
namespace {

constexpr FutexKey kA{1, 0x1000, false};
constexpr FutexKey kB{1, 0x2000, false};

struct FutexQueues : testing::Test {
  OneTask one;
  FutexTable table;
};

TEST_F(FutexQueues, WakesOldestFirst) {
  FutexWaiter first(table, *one.task, FutexTable::kAnyBit),
      second(table, *one.task, FutexTable::kAnyBit);
  table.enqueue(kA, first);
  table.enqueue(kA, second);
  EXPECT_EQ(table.wake(kB, 1), 0);
  EXPECT_EQ(table.wake(kA, 1), 1);
  EXPECT_TRUE(first.woken());
  EXPECT_FALSE(second.woken());
  EXPECT_EQ(table.wake(kA, 10), 1);
  EXPECT_EQ(table.wake(kA, 10), 0);
}

TEST_F(FutexQueues, BitsetsSelect) {
  FutexWaiter one_bit(table, *one.task, 1), other(table, *one.task, 2);
  table.enqueue(kA, one_bit);
  table.enqueue(kA, other);
  EXPECT_EQ(table.wake(kA, 10, 2), 1);
  EXPECT_TRUE(other.woken());
  EXPECT_EQ(table.waiting(kA), 1u);
}

TEST_F(FutexQueues, SharedAndPrivateKeysDiffer) {
  FutexWaiter w(table, *one.task, 1);
  table.enqueue(FutexKey{1, 0x1000, true}, w);
  EXPECT_EQ(table.wake(kA, 1), 0);
}

TEST_F(FutexQueues, RequeueMovesTheRest) {
  FutexWaiter a(table, *one.task, ~0u), b(table, *one.task, ~0u), c(table, *one.task, ~0u);
  for (FutexWaiter* w : {&a, &b, &c}) table.enqueue(kA, *w);
  int moved = 0;
  EXPECT_EQ(table.requeue(kA, kB, 1, 1, &moved), 1);
  EXPECT_EQ(moved, 1);
  EXPECT_TRUE(a.woken());
  EXPECT_EQ(table.waiting(kA), 1u);
  EXPECT_EQ(table.wake(kB, 10), 1);
  EXPECT_TRUE(b.woken());
}

TEST_F(FutexQueues, WaitersThatEndLeave) {
  {
    FutexWaiter w(table, *one.task, ~0u);
    table.enqueue(kA, w);
    EXPECT_EQ(table.waiting(kA), 1u);
  }
  EXPECT_EQ(table.wake(kA, 1), 0);
}

}  // namespace
}  // namespace uks
