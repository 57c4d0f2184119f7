// Sockets that only messages on their way refer to (unix(7), SCM_RIGHTS; net/unix/garbage.c).
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/syscalls/test_util.h"

namespace {

struct Ends {
  explicit Ends(int type = SOCK_STREAM) {
    int fds[2];
    EXPECT_OK(socketpair(AF_UNIX, type, 0, fds));
    a = fds[0], b = fds[1];
  }
  int a = -1, b = -1;
};

int send_fd(int over, int fd) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  char byte = 'x';
  iovec iov{&byte, 1};
  msghdr m{};
  m.msg_iov = &iov;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(c), &fd, sizeof fd);
  return static_cast<int>(sendmsg(over, &m, MSG_DONTWAIT));
}

// -1: none came.
int receive_fd(int from, int flags = 0) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  char byte = 0;
  iovec iov{&byte, 1};
  msghdr m{};
  m.msg_iov = &iov;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  if (recvmsg(from, &m, flags | MSG_DONTWAIT) != 1 || !CMSG_FIRSTHDR(&m)) return -1;
  int fd = -1;
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
  return fd;
}

// What makes the kernel look for garbage: some AF_UNIX socket's end.
void close_another() {
  const Ends other;
  close(other.a);
  close(other.b);
}

// Whether the other end of `fd` goes within some seconds.
bool hangs_up(int fd) {
  for (int i = 0; i < 500; i++) {
    close_another();
    pollfd p{fd, 0, 0};
    if (poll(&p, 1, 10) == 1 && (p.revents & POLLHUP)) return true;
  }
  return false;
}

bool is_connected(int a, int b) {
  char byte = 'y';
  return write(a, &byte, 1) == 1 && read(b, &byte, 1) == 1 && byte == 'y';
}

class ScmGarbage : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(On, ScmGarbage,
                         ::testing::Values(SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET));

TEST_P(ScmGarbage, WhatOnlyItsOwnQueueHoldsGoes) {
  const Ends ring(GetParam()), watched;
  ASSERT_EQ(send_fd(ring.a, ring.b), 1);  // into its own queue
  ASSERT_EQ(send_fd(ring.a, watched.a), 1);
  close(watched.a);
  close(ring.a);
  close(ring.b);
  EXPECT_TRUE(hangs_up(watched.b));
  close(watched.b);
}

TEST_P(ScmGarbage, RingsOfManyGo) {
  constexpr int kMany = 20;
  std::vector<Ends> rings;
  for (int i = 0; i < kMany; i++) rings.emplace_back(GetParam());
  const Ends watched;
  // Each one's queue holds the next one.
  for (int i = 0; i < kMany; i++) ASSERT_EQ(send_fd(rings[i].a, rings[(i + 1) % kMany].b), 1);
  ASSERT_EQ(send_fd(rings[7].a, watched.a), 1);
  close(watched.a);
  for (const Ends& ring : rings) {
    close(ring.a);
    if (&ring != &rings[3]) close(ring.b);
  }
  close_another();
  pollfd p{watched.b, 0, 0};
  EXPECT_EQ(poll(&p, 1, 50), 0);  // all can be had through the one that is left
  close(rings[3].b);
  EXPECT_TRUE(hangs_up(watched.b));
  close(watched.b);
}

TEST_P(ScmGarbage, WhatCanBeReceivedStays) {
  const Ends held(GetParam()), chain(GetParam()), last;
  ASSERT_EQ(send_fd(chain.a, chain.b), 1);
  ASSERT_EQ(send_fd(chain.a, last.a), 1);
  ASSERT_EQ(send_fd(held.a, chain.b), 1);
  for (const int fd : {chain.a, chain.b, last.a}) close(fd);
  for (int i = 0; i < 100; i++) close_another();
  const int chained = receive_fd(held.b);
  ASSERT_GE(chained, 0);
  for (int i = 0; i < 100; i++) close_another();
  const int itself = receive_fd(chained);
  ASSERT_GE(itself, 0);
  const int end = receive_fd(itself);
  ASSERT_GE(end, 0);
  EXPECT_TRUE(is_connected(end, last.b));
  for (const int fd : {held.a, held.b, chained, itself, end, last.b}) close(fd);
}

TEST_P(ScmGarbage, PeekedDescriptorsKeepIt) {
  const Ends ring(GetParam());
  ASSERT_EQ(send_fd(ring.a, ring.b), 1);
  const int peeked = receive_fd(ring.b, MSG_PEEK);
  ASSERT_GE(peeked, 0);
  close(ring.b);
  for (int i = 0; i < 100; i++) close_another();
  const int again = receive_fd(peeked);
  EXPECT_GE(again, 0);
  for (const int fd : {ring.a, peeked, again}) close(fd);
}

TEST(ScmGarbageOfListeners, ConnectionsNobodyAcceptedHoldNothing) {
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_GE(listener, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  ASSERT_OK(bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof name.sun_family));
  ASSERT_OK(listen(listener, 5));
  socklen_t length = sizeof name;
  ASSERT_OK(getsockname(listener, reinterpret_cast<sockaddr*>(&name), &length));
  const int client = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_OK(connect(client, reinterpret_cast<sockaddr*>(&name), length));
  ASSERT_EQ(send_fd(client, listener), 1);
  close(listener);
  EXPECT_TRUE(hangs_up(client));
  close(client);
}

// More than may ever be on their way at once.
TEST(ScmGarbageInNumbers, CanBeLost) {
  for (int i = 0; i < 20'000; i++) {
    const Ends ring;
    int sent = send_fd(ring.a, ring.b);
    // Linux collects in the background, and counts for each user.
    for (int tries = 0; sent < 0 && errno == ETOOMANYREFS && tries < 1000; tries++) {
      close_another();
      usleep(1000);
      sent = send_fd(ring.a, ring.b);
    }
    ASSERT_EQ(sent, 1) << "round " << i;
    close(ring.a);
    close(ring.b);
  }
}

// Nobody closes another socket afterwards: what an exiting process drops is all that says so.
TEST(ScmGarbageOfTheDead, IsCollected) {
  int watched[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, watched), 0);
  const pid_t child = test::spawn([&] {
    int ring[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ring) != 0) return 1;
    return send_fd(ring[0], ring[1]) == 1 && send_fd(ring[0], watched[0]) == 1 ? 0 : 2;
  });
  close(watched[0]);
  EXPECT_EQ(test::wait_for(child), 0);
  pollfd p{watched[1], 0, 0};
  EXPECT_EQ(poll(&p, 1, 10'000), 1);
  EXPECT_TRUE(p.revents & POLLHUP);
  close(watched[1]);
}

}  // namespace
