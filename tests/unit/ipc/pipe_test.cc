// The byte ring of pipes.
#include "sentry/fs/pipe/pipe.h"

#include <gtest/gtest.h>

#include <string>

namespace uks {
namespace {

Result<size_t> put(Pipe& pipe, const std::string& text) {
  BufferSource source{std::span<const char>(text)};
  return pipe.write(source);
}

std::string get(Pipe& pipe, size_t n) {
  std::string text(n, '\0');
  BufferSink sink{std::span<char>(text)};
  auto done = pipe.read(sink);
  if (!done) return "error " + std::to_string(done.error().value);
  text.resize(*done);
  return text;
}

struct Ends {
  Ref<Pipe> pipe = make_ref<Pipe>();
  Ends() {
    pipe->add_end(true, false);
    pipe->add_end(false, true);
  }
  Pipe* operator->() { return pipe.get(); }
  Pipe& operator*() { return *pipe; }
};

TEST(Pipe, KeepsOrderAcrossTheWrap) {
  Ends pipe;
  std::string sent, got;
  unsigned char next = 0;
  for (int round = 0; round < 200; round++) {
    std::string chunk(static_cast<size_t>(round * 37 % 5000 + 1), '\0');
    for (char& c : chunk) c = static_cast<char>(next++);
    if (auto n = put(*pipe, chunk)) sent += chunk.substr(0, *n);
    got += get(*pipe, static_cast<size_t>(round * 53 % 4000 + 1));
  }
  while (pipe->size() > 0) got += get(*pipe, 4096);
  EXPECT_EQ(got, sent);
}

TEST(Pipe, WritesOfPipeBufAreWhole) {
  Ends pipe;
  EXPECT_EQ(*put(*pipe, std::string(65536 - 100, 'a')), 65536u - 100);
  EXPECT_EQ(put(*pipe, std::string(101, 'b')).error(), EAGAIN);
  EXPECT_EQ(*put(*pipe, std::string(5000, 'c')), 100u);  // longer ones may be cut
  EXPECT_EQ(put(*pipe, "d").error(), EAGAIN);
}

TEST(Pipe, EndsDecideEofAndEpipe) {
  Ends pipe;
  EXPECT_EQ(get(*pipe, 10), "error " + std::to_string(EAGAIN));
  ASSERT_TRUE(put(*pipe, "last"));
  pipe->remove_end(false, true);
  EXPECT_EQ(pipe->read_events(), uint32_t{EPOLLIN | EPOLLRDNORM | EPOLLHUP});
  EXPECT_EQ(get(*pipe, 10), "last");
  EXPECT_EQ(get(*pipe, 10), "");
  pipe->add_end(false, true);
  pipe->remove_end(true, false);
  EXPECT_EQ(put(*pipe, "x").error(), EPIPE);
  EXPECT_TRUE(pipe->write_events() & EPOLLERR);
}

TEST(Pipe, IsWritableFromPipeBufOn) {
  Ends pipe;
  EXPECT_EQ(*put(*pipe, std::string(65536, 'a')), 65536u);
  EXPECT_EQ(pipe->write_events(), 0u);
  get(*pipe, 4095);
  EXPECT_EQ(pipe->write_events(), 0u);
  get(*pipe, 1);
  EXPECT_EQ(pipe->write_events(), uint32_t{EPOLLOUT | EPOLLWRNORM});
}

TEST(Pipe, CapacityRoundsAndKeepsContent) {
  Ends pipe;
  ASSERT_TRUE(put(*pipe, std::string(5000, 'x')));
  EXPECT_EQ(pipe->set_capacity(4096, false).error(), EBUSY);
  EXPECT_EQ(*pipe->set_capacity(5001, false), 8192u);
  EXPECT_EQ(pipe->set_capacity(Pipe::kMaxSize + 1, false).error(), EPERM);
  EXPECT_EQ(get(*pipe, 9000), std::string(5000, 'x'));
  EXPECT_EQ(*pipe->set_capacity(1, false), 4096u);
}

TEST(Pipe, PacketsKeepTheirEnds) {
  Ends pipe;
  const auto packet = [&](const std::string& text) {
    BufferSource source{std::span<const char>(text)};
    return pipe->write(source, true);
  };
  ASSERT_TRUE(put(*pipe, "stream"));
  ASSERT_TRUE(packet("abc"));
  ASSERT_TRUE(packet("de"));
  ASSERT_TRUE(put(*pipe, "tail"));
  EXPECT_EQ(get(*pipe, 4), "stre");
  EXPECT_EQ(get(*pipe, 10), "am");
  EXPECT_EQ(get(*pipe, 2), "ab");  // the rest of the packet is dropped
  EXPECT_EQ(get(*pipe, 10), "de");
  EXPECT_EQ(get(*pipe, 10), "tail");
  EXPECT_EQ(pipe->size(), 0u);
  for (int i = 0; i < 16; i++) ASSERT_TRUE(packet("p"));
  EXPECT_EQ(packet("p").error(), EAGAIN);
}

TEST(Pipe, PrependPutsBackInFront) {
  Ends pipe;
  ASSERT_TRUE(put(*pipe, "world"));
  pipe->prepend("hello ", 6);
  EXPECT_EQ(get(*pipe, 20), "hello world");
}

}  // namespace
}  // namespace uks
