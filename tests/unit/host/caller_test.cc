#include "sentry/fs/host/caller.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

namespace uks {
namespace {

TEST(CallerStat, Parses) {
  CallerStat stat;
  ASSERT_TRUE(parse_caller_stat("12 (a) (b) 3 4) S 1 2 3 34817 99 4194560 1 2 3\n", stat));
  EXPECT_EQ(stat.pgrp, 2);
  EXPECT_EQ(stat.terminal, makedev(136, 1));
  EXPECT_EQ(stat.foreground, 99);
  // pts/300: the minor's upper bits lie above the major.
  ASSERT_TRUE(parse_caller_stat("12 (x) R 1 2 3 1083436 -1 0\n", stat));
  EXPECT_EQ(stat.terminal, makedev(136, 300));
  ASSERT_TRUE(parse_caller_stat("12 (x) R 1 2 3 0 -1 0\n", stat));
  EXPECT_EQ(stat.terminal, 0u);
  for (const char* text :
       {"", "12 x R 1 2 3 4 5", "12 (x)", "12 (x) R 1 2 3", "12 (x) R a b c d e"})
    EXPECT_FALSE(parse_caller_stat(text, stat)) << text;
}

}  // namespace
}  // namespace uks
