// epoll over eventfds: triggering modes, nesting, and the end of what is watched.
#include "sentry/fs/epoll/epoll.h"

#include <gtest/gtest.h>

#include "sentry/fs/eventfd/eventfd.h"
#include "tests/unit/ipc/fixture.h"

namespace uks {
namespace {

std::vector<Epoll::Used> used;

struct EpollTest : testing::Test {
  OneTask one;
  Ref<Epoll> epoll = make_ref<Epoll>(nullptr);
  Ref<EventFd> event = make_ref<EventFd>(O_RDWR, 0, false, nullptr);

  void signal() {
    const uint64_t value = 1;
    BufferSource source{std::span<const char>(reinterpret_cast<const char*>(&value), sizeof value)};
    ASSERT_TRUE(event->write(*one.task, source));
  }
  void drain() {
    uint64_t value = 0;
    BufferSink sink{std::span<char>(reinterpret_cast<char*>(&value), sizeof value)};
    ASSERT_TRUE(event->read(*one.task, sink));
  }
};

TEST_F(EpollTest, LevelTriggeredUntilDrained) {
  ASSERT_TRUE(epoll->add(*one.task, 3, *event, {EPOLLIN, 7}));
  EXPECT_TRUE(epoll->collect(*one.task, 8, used).empty());
  signal();
  for (int i = 0; i < 2; i++) {
    const auto events = epoll->collect(*one.task, 8, used);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].events, uint32_t{EPOLLIN});
    EXPECT_EQ(events[0].data, 7u);
  }
  drain();
  EXPECT_TRUE(epoll->collect(*one.task, 8, used).empty());
}

TEST_F(EpollTest, EdgeTriggeredOncePerWrite) {
  ASSERT_TRUE(epoll->add(*one.task, 3, *event, {EPOLLIN | EPOLLET, 0}));
  signal();
  EXPECT_EQ(epoll->collect(*one.task, 8, used).size(), 1u);
  EXPECT_TRUE(epoll->collect(*one.task, 8, used).empty());
  signal();
  EXPECT_EQ(epoll->collect(*one.task, 8, used).size(), 1u);
}

TEST_F(EpollTest, OneShotNeedsRearming) {
  ASSERT_TRUE(epoll->add(*one.task, 3, *event, {EPOLLIN | EPOLLONESHOT, 0}));
  signal();
  EXPECT_EQ(epoll->collect(*one.task, 8, used).size(), 1u);
  signal();
  EXPECT_TRUE(epoll->collect(*one.task, 8, used).empty());
  ASSERT_TRUE(epoll->modify(*one.task, 3, *event, {EPOLLIN | EPOLLONESHOT, 0}));
  EXPECT_EQ(epoll->collect(*one.task, 8, used).size(), 1u);
}

TEST_F(EpollTest, RegistrationsEndWithTheDescription) {
  ASSERT_TRUE(epoll->add(*one.task, 3, *event, {EPOLLIN, 0}));
  signal();
  event = nullptr;
  EXPECT_TRUE(epoll->collect(*one.task, 8, used).empty());
  EXPECT_EQ(epoll->poll_events(), 0u);
}

TEST_F(EpollTest, ErrorsOfControl) {
  ASSERT_TRUE(epoll->add(*one.task, 3, *event, {EPOLLIN, 0}));
  EXPECT_EQ(epoll->add(*one.task, 3, *event, {EPOLLIN, 0}).error(), EEXIST);
  EXPECT_TRUE(epoll->add(*one.task, 4, *event, {EPOLLIN, 0}));
  EXPECT_EQ(epoll->modify(*one.task, 5, *event, {EPOLLIN, 0}).error(), ENOENT);
  EXPECT_TRUE(epoll->remove(3, *event));
  EXPECT_EQ(epoll->remove(3, *event).error(), ENOENT);
  EXPECT_EQ(epoll->add(*one.task, 9, *epoll, {EPOLLIN, 0}).error(), EINVAL);
}

TEST_F(EpollTest, NestsButNotInCircles) {
  auto outer = make_ref<Epoll>(nullptr);
  ASSERT_TRUE(outer->add(*one.task, 1, *epoll, {EPOLLIN, 1}));
  EXPECT_EQ(epoll->add(*one.task, 2, *outer, {EPOLLIN, 2}).error(), ELOOP);
  ASSERT_TRUE(epoll->add(*one.task, 3, *event, {EPOLLIN, 3}));
  signal();
  ASSERT_EQ(outer->collect(*one.task, 8, used).size(), 1u);
}

}  // namespace
}  // namespace uks
