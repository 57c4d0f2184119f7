// AF_UNIX and loopback sockets.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <thread>

#include "tests/syscalls/test_util.h"

namespace {
using test::Fd;

class Pair : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    int s[2];
    ASSERT_OK(socketpair(AF_UNIX, GetParam() | SOCK_CLOEXEC, 0, s));
    a = Fd(s[0]);
    b = Fd(s[1]);
  }
  bool stream() const { return GetParam() == SOCK_STREAM; }
  Fd a, b;
};
INSTANTIATE_TEST_SUITE_P(Types, Pair, ::testing::Values(SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET),
                         [](const auto& info) {
                           return info.param == SOCK_STREAM  ? "Stream"
                                  : info.param == SOCK_DGRAM ? "Datagram"
                                                             : "Seqpacket";
                         });

TEST_P(Pair, BothWays) {
  char buffer[10] = {};
  EXPECT_EQ(send(a, "ping", 4, 0), 4);
  EXPECT_EQ(recv(b, buffer, sizeof buffer, 0), 4);
  EXPECT_STREQ(buffer, "ping");
  EXPECT_EQ(write(b, "pong", 4), 4);
  EXPECT_EQ(read(a, buffer, sizeof buffer), 4);
  EXPECT_STREQ(buffer, "pong");
}

TEST_P(Pair, BoundariesOfMessages) {
  ASSERT_EQ(send(a, "one", 3, 0), 3);
  ASSERT_EQ(send(a, "two", 3, 0), 3);
  char buffer[10] = {};
  EXPECT_EQ(recv(b, buffer, sizeof buffer, 0), stream() ? 6 : 3);
}

TEST_P(Pair, TruncationAndPeek) {
  ASSERT_EQ(send(a, "abcdef", 6, 0), 6);
  char buffer[10] = {};
  EXPECT_EQ(recv(b, buffer, 2, MSG_PEEK), 2);
  EXPECT_EQ(recv(b, buffer, 2, MSG_TRUNC), stream() ? 2 : 6);
  EXPECT_EQ(recv(b, buffer, 10, MSG_DONTWAIT), stream() ? 4 : -1);
}

TEST_P(Pair, NonblockingIsEagain) {
  char c;
  EXPECT_ERRNO(recv(a, &c, 1, MSG_DONTWAIT), EAGAIN);
  std::string block(4096, 'x');
  ssize_t n;
  while ((n = send(a, block.data(), block.size(), MSG_DONTWAIT)) > 0) {
  }
  EXPECT_EQ(errno, EAGAIN);
}

TEST_P(Pair, PassesDescriptors) {
  int fds[2];
  ASSERT_OK(pipe(fds));
  char data = 'x', control[CMSG_SPACE(sizeof fds)] = {};
  iovec iov{&data, 1};
  msghdr m{};
  m.msg_iov = &iov;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof fds);
  memcpy(CMSG_DATA(c), fds, sizeof fds);
  ASSERT_EQ(sendmsg(a, &m, 0), 1);
  memset(control, 0, sizeof control);
  m.msg_controllen = sizeof control;
  ASSERT_EQ(recvmsg(b, &m, MSG_CMSG_CLOEXEC), 1);
  c = CMSG_FIRSTHDR(&m);
  ASSERT_NE(c, nullptr);
  int got[2];
  memcpy(got, CMSG_DATA(c), sizeof got);
  EXPECT_NE(got[0], fds[0]);
  EXPECT_EQ(fcntl(got[0], F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(write(got[1], "z", 1), 1);
  EXPECT_EQ(read(fds[0], &data, 1), 1);
  EXPECT_EQ(data, 'z');
  for (int fd : {fds[0], fds[1], got[0], got[1]}) close(fd);
}

TEST(UnixStream, EndOfFileAndEpipe) {
  int s[2];
  ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
  ASSERT_OK(shutdown(s[0], SHUT_WR));
  char c;
  EXPECT_EQ(read(s[1], &c, 1), 0);
  EXPECT_EQ(write(s[1], "x", 1), 1);
  EXPECT_EQ(read(s[0], &c, 1), 1);
  close(s[1]);
  EXPECT_ERRNO(send(s[0], "x", 1, MSG_NOSIGNAL), EPIPE);
  close(s[0]);
}

TEST(UnixStream, ListenConnectAccept) {
  test::TempDir dir("/tmp");
  Fd server(socket(AF_UNIX, SOCK_STREAM, 0)), client(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, (dir / "s").c_str(), sizeof address.sun_path - 1);
  auto* sa = reinterpret_cast<sockaddr*>(&address);
  EXPECT_ERRNO(connect(client, sa, sizeof address), ENOENT);
  ASSERT_OK(bind(server, sa, sizeof address));
  struct stat st;
  ASSERT_OK(stat(address.sun_path, &st));
  EXPECT_TRUE(S_ISSOCK(st.st_mode));
  EXPECT_ERRNO(connect(client, sa, sizeof address), ECONNREFUSED);
  Fd second(socket(AF_UNIX, SOCK_STREAM, 0));
  EXPECT_ERRNO(bind(second, sa, sizeof address), EADDRINUSE);
  ASSERT_OK(listen(server, 5));
  ASSERT_OK(connect(client, sa, sizeof address));
  Fd accepted(accept4(server, nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_GE(accepted.get(), 0);
  ASSERT_EQ(write(client, "hi", 2), 2);
  char buffer[3] = {};
  EXPECT_EQ(read(accepted, buffer, 2), 2);
  EXPECT_STREQ(buffer, "hi");
  ucred cred{};
  socklen_t length = sizeof cred;
  ASSERT_OK(getsockopt(client, SOL_SOCKET, SO_PEERCRED, &cred, &length));
  EXPECT_EQ(cred.pid, getpid());
  EXPECT_EQ(cred.uid, geteuid());
  sockaddr_un peer{};
  length = sizeof peer;
  ASSERT_OK(getpeername(client, reinterpret_cast<sockaddr*>(&peer), &length));
  EXPECT_STREQ(peer.sun_path, address.sun_path);
  EXPECT_ERRNO(listen(client, 1), EINVAL);
  EXPECT_ERRNO(connect(client, sa, sizeof address), EISCONN);
}

TEST(UnixAbstract, NamesWithoutFiles) {
  Fd server(socket(AF_UNIX, SOCK_DGRAM, 0)), client(socket(AF_UNIX, SOCK_DGRAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "uks-test-" + std::to_string(getpid());
  memcpy(address.sun_path + 1, name.data(), name.size());
  const socklen_t length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  auto* sa = reinterpret_cast<sockaddr*>(&address);
  ASSERT_OK(bind(server, sa, length));
  EXPECT_EQ(sendto(client, "d", 1, 0, sa, length), 1);
  char c = 0;
  EXPECT_EQ(recv(server, &c, 1, 0), 1);
  EXPECT_EQ(c, 'd');
}

sockaddr_in loopback(uint16_t port = 0) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = port;
  return a;
}
sockaddr_in name_of(int fd) {
  sockaddr_in a{};
  socklen_t length = sizeof a;
  EXPECT_OK(getsockname(fd, reinterpret_cast<sockaddr*>(&a), &length));
  return a;
}

TEST(Tcp, Loopback) {
  Fd server(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = loopback();
  ASSERT_OK(bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address));
  ASSERT_OK(listen(server, 5));
  address = name_of(server);
  EXPECT_NE(address.sin_port, 0);
  std::string data(500'000, 'x');
  std::thread thread([&] {
    Fd client(socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_OK(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address));
    size_t sent = 0;
    while (sent < data.size()) {
      ssize_t n = send(client, data.data() + sent, data.size() - sent, 0);
      ASSERT_GT(n, 0);
      sent += n;
    }
    ASSERT_OK(shutdown(client, SHUT_WR));
    char c = 0;
    EXPECT_EQ(recv(client, &c, 1, 0), 1);
    EXPECT_EQ(c, 'k');
  });
  sockaddr_in peer{};
  socklen_t length = sizeof peer;
  Fd accepted(accept(server, reinterpret_cast<sockaddr*>(&peer), &length));
  ASSERT_GE(accepted.get(), 0);
  EXPECT_EQ(peer.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  int one = 1;
  EXPECT_OK(setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
  std::string got;
  char buffer[10'000];
  ssize_t n;
  while ((n = recv(accepted, buffer, sizeof buffer, 0)) > 0) got.append(buffer, n);
  EXPECT_EQ(n, 0);
  EXPECT_TRUE(got == data);
  EXPECT_EQ(send(accepted, "k", 1, 0), 1);
  thread.join();
}

TEST(Tcp, Refused) {
  Fd probe(socket(AF_INET, SOCK_STREAM, 0)), client(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = loopback();
  ASSERT_OK(bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address));
  address = name_of(probe);  // bound, but nobody listens
  EXPECT_ERRNO(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address),
               ECONNREFUSED);
}

TEST(Tcp, NonblockingConnect) {
  Fd server(socket(AF_INET, SOCK_STREAM, 0)),
      client(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  sockaddr_in address = loopback();
  ASSERT_OK(bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address));
  ASSERT_OK(listen(server, 5));
  address = name_of(server);
  int r = connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address);
  EXPECT_TRUE(r == 0 || errno == EINPROGRESS);
  pollfd p{client, POLLOUT, 0};
  EXPECT_EQ(poll(&p, 1, 5000), 1);
  EXPECT_EQ(p.revents, POLLOUT);
  int error = -1;
  socklen_t length = sizeof error;
  EXPECT_OK(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length));
  EXPECT_EQ(error, 0);
}

TEST(Udp, Loopback) {
  Fd a(socket(AF_INET, SOCK_DGRAM, 0)), b(socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in address = loopback();
  ASSERT_OK(bind(a, reinterpret_cast<sockaddr*>(&address), sizeof address));
  address = name_of(a);
  EXPECT_EQ(sendto(b, "one", 3, 0, reinterpret_cast<sockaddr*>(&address), sizeof address), 3);
  char buffer[10] = {};
  sockaddr_in from{};
  socklen_t length = sizeof from;
  EXPECT_EQ(recvfrom(a, buffer, 10, 0, reinterpret_cast<sockaddr*>(&from), &length), 3);
  EXPECT_EQ(from.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_EQ(from.sin_port, name_of(b).sin_port);
  ASSERT_OK(connect(b, reinterpret_cast<sockaddr*>(&address), sizeof address));
  EXPECT_EQ(send(b, "", 0, 0), 0);
  EXPECT_EQ(recv(a, buffer, 10, 0), 0);  // an empty datagram is one
  EXPECT_ERRNO(recv(a, buffer, 10, MSG_DONTWAIT), EAGAIN);
}

TEST(SocketErrors, Arguments) {
  EXPECT_ERRNO(socket(AF_UNIX, 77, 0), EINVAL);
  EXPECT_ERRNO(socket(250, SOCK_STREAM, 0), EAFNOSUPPORT);
  EXPECT_ERRNO(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
  EXPECT_ERRNO(listen(0, 1), ENOTSOCK);
  EXPECT_ERRNO(connect(999, nullptr, 0), EBADF);
  Fd s(socket(AF_INET, SOCK_STREAM, 0));
  char c;
  EXPECT_ERRNO(recv(s, &c, 1, 0), ENOTCONN);
  EXPECT_ERRNO(send(s, &c, 1, MSG_NOSIGNAL), EPIPE);
  EXPECT_ERRNO(accept(s, nullptr, nullptr), EINVAL);
  EXPECT_ERRNO(lseek(s, 0, SEEK_SET), ESPIPE);
  int type = 0;
  socklen_t length = sizeof type;
  EXPECT_OK(getsockopt(s, SOL_SOCKET, SO_TYPE, &type, &length));
  EXPECT_EQ(type, SOCK_STREAM);
  EXPECT_ERRNO(getsockopt(s, SOL_SOCKET, 9999, &type, &length), ENOPROTOOPT);
}

// Options without effect take the values that they take elsewhere.
TEST(SocketOptions, ValuesAreChecked) {
  const test::Fd s(socket(AF_INET, SOCK_STREAM, 0));
  const auto set = [&](int level, int option, int value) {
    return setsockopt(s, level, option, &value, sizeof value);
  };
  const auto get = [&](int level, int option) {
    int value = -77;
    socklen_t length = sizeof value;
    return getsockopt(s, level, option, &value, &length) == 0 ? value : -78;
  };
  EXPECT_OK(set(IPPROTO_TCP, TCP_NODELAY, 7));
  EXPECT_EQ(get(IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_OK(set(SOL_SOCKET, SO_TIMESTAMP, 5));
  EXPECT_EQ(get(SOL_SOCKET, SO_TIMESTAMP), 1);
  EXPECT_ERRNO(set(IPPROTO_TCP, TCP_KEEPIDLE, 0), EINVAL);
  EXPECT_ERRNO(set(IPPROTO_TCP, TCP_KEEPIDLE, 40'000), EINVAL);
  EXPECT_OK(set(IPPROTO_TCP, TCP_KEEPIDLE, 100));
  EXPECT_EQ(get(IPPROTO_TCP, TCP_KEEPIDLE), 100);
  EXPECT_ERRNO(set(IPPROTO_IP, IP_TTL, 300), EINVAL);
  EXPECT_OK(set(IPPROTO_IP, IP_TTL, 3));
  EXPECT_EQ(get(IPPROTO_IP, IP_TTL), 3);
  EXPECT_OK(set(IPPROTO_IP, IP_TTL, -1));
  EXPECT_NE(get(IPPROTO_IP, IP_TTL), 3);
  EXPECT_ERRNO(set(SOL_SOCKET, SO_ZEROCOPY, 2), EINVAL);
  EXPECT_ERRNO(set(SOL_SOCKET, SO_BUSY_POLL, -1), EINVAL);
  ASSERT_OK(listen(s, 1));
  int bytes;
  EXPECT_ERRNO(ioctl(s, FIONREAD, &bytes), EINVAL);
}

}  // namespace
