// The gofer's message codec: round trips, and malformed messages.
#include "gofer/proto/codec.h"

#include <gtest/gtest.h>

#include <random>

namespace uks::gofer {
namespace {

TEST(GoferCodec, RoundTrip) {
  Attr attr;
  attr.dev = 0x1234567890;
  attr.ino = ~0ull;
  attr.mode = S_IFREG | 0644;
  attr.nlink = 3;
  attr.size = 1ull << 40;
  attr.flags = kAttrWritable;
  attr.mtime = {-5, 999'999'999};
  attr.btime = {1, 2};
  Writer w;
  w.u32(7);
  w.string("name");
  w.string(std::string("a\0b", 3));
  w.node({42, attr});
  w.i64(-1);
  EXPECT_EQ(w.size(), 4 + 8 + 7 + kNodeSize + 8);
  Reader r(w.bytes());
  EXPECT_EQ(r.u32(), 7u);
  EXPECT_EQ(r.string(10), "name");
  EXPECT_EQ(r.string(10), std::string_view("a\0b", 3));
  NodeAttr node = r.node();
  EXPECT_EQ(node.id, 42u);
  EXPECT_EQ(node.attr, attr);
  EXPECT_EQ(r.i64(), -1);
  EXPECT_TRUE(r.done());
}

TEST(GoferCodec, ShortAndLyingMessages) {
  Writer w;
  w.string("hello");
  for (size_t size = 0; size < w.size(); ++size) {
    Reader r(std::string_view(w.bytes()).substr(0, size));
    EXPECT_EQ(r.string(100), "");
    EXPECT_FALSE(r.ok());
    EXPECT_EQ(r.u64(), 0u);
    EXPECT_FALSE(r.done());
  }
  Reader too_long(w.bytes());
  EXPECT_EQ(too_long.string(4), "");
  EXPECT_FALSE(too_long.ok());
  Writer lie;
  lie.u32(~0u);
  lie.u32(0);
  Reader r(lie.bytes());
  EXPECT_EQ(r.string(~size_t{0}), "");
  EXPECT_FALSE(r.ok());
  Writer rest;
  rest.u64(1);
  Reader left_over(rest.bytes());
  left_over.u32();
  EXPECT_TRUE(left_over.ok());
  EXPECT_FALSE(left_over.done());
}

TEST(GoferCodec, OverflowIsNoticed) {
  Writer w;
  std::string big(kMaxMessage - 8, 'x');
  w.string(big);
  EXPECT_FALSE(w.overflow());
  w.u64(1);
  EXPECT_TRUE(w.overflow());
  EXPECT_LE(w.size(), kMaxMessage);
}

TEST(GoferCodec, Names) {
  EXPECT_EQ(check_name("a"), 0);
  EXPECT_EQ(check_name("..."), 0);
  EXPECT_EQ(check_name(std::string(255, 'x')), 0);
  EXPECT_EQ(check_name(std::string(256, 'x')), ENAMETOOLONG);
  EXPECT_EQ(check_name(""), EINVAL);
  EXPECT_EQ(check_name("."), EINVAL);
  EXPECT_EQ(check_name(".."), EINVAL);
  EXPECT_EQ(check_name("a/b"), EINVAL);
  EXPECT_EQ(check_name(std::string_view("a\0", 2)), EINVAL);
}

}  // namespace
}  // namespace uks::gofer
