// Pseudo terminals: line discipline, controlling terminals, job control, hang-up.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "tests/syscalls/test_util.h"

namespace {

struct Pair {
  test::Fd master, slave;
};

std::string slave_name(int master) {
  unsigned n = 0;
  EXPECT_OK(ioctl(master, TIOCGPTN, &n));
  return "/dev/pts/" + std::to_string(n);
}

Pair open_pair() {
  Pair p;
  p.master = test::Fd(open("/dev/ptmx", O_RDWR | O_NOCTTY));
  EXPECT_GE(p.master.get(), 0);
  int off = 0;
  EXPECT_OK(ioctl(p.master, TIOCSPTLCK, &off));
  p.slave = test::Fd(open(slave_name(p.master).c_str(), O_RDWR | O_NOCTTY));
  EXPECT_GE(p.slave.get(), 0);
  return p;
}

void type(int master, std::string_view text) {
  ASSERT_EQ(write(master, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

bool readable(int fd, int ms = 1000) {
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&p, 1, ms) == 1 && (p.revents & POLLIN);
}

std::string read_some(int fd) {
  char buffer[512];
  const ssize_t n = readable(fd) ? read(fd, buffer, sizeof buffer) : 0;
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : std::string();
}

// Until `size` bytes came, or none for a second.
std::string read_bytes(int fd, size_t size) {
  std::string out;
  while (out.size() < size) {
    const std::string more = read_some(fd);
    if (more.empty()) break;
    out += more;
  }
  return out;
}

void set_local(int fd, tcflag_t on, tcflag_t off) {
  termios t{};
  ASSERT_OK(tcgetattr(fd, &t));
  t.c_lflag = (t.c_lflag | on) & ~off;
  ASSERT_OK(tcsetattr(fd, TCSANOW, &t));
}

TEST(Pty, LockedUntilUnlocked) {
  test::Fd master(open("/dev/ptmx", O_RDWR | O_NOCTTY));
  ASSERT_GE(master.get(), 0);
  EXPECT_ERRNO(open(slave_name(master).c_str(), O_RDWR | O_NOCTTY), EIO);
}

TEST(Pty, CanonicalLineAndEcho) {
  Pair p = open_pair();
  type(p.master, "abX\177c\r");
  EXPECT_EQ(read_some(p.slave), "abc\n");
  EXPECT_EQ(read_bytes(p.master, 9), "abX\b \bc\r\n");
  ASSERT_EQ(write(p.slave, "out\n", 4), 4);
  EXPECT_EQ(read_bytes(p.master, 5), "out\r\n");
}

TEST(Pty, KillAndEndOfFile) {
  Pair p = open_pair();
  set_local(p.slave, 0, ECHO);
  type(p.master, "gone\025kept\n");
  EXPECT_EQ(read_some(p.slave), "kept\n");
  type(p.master, "\004");
  ASSERT_TRUE(readable(p.slave));
  char c = 0;
  EXPECT_EQ(read(p.slave, &c, 1), 0);
  type(p.master, "part\004");
  EXPECT_EQ(read_some(p.slave), "part");
}

TEST(Pty, RawMinimumAndTime) {
  Pair p = open_pair();
  termios t{};
  ASSERT_OK(tcgetattr(p.slave, &t));
  cfmakeraw(&t);
  t.c_cc[VMIN] = 0;
  t.c_cc[VTIME] = 0;
  ASSERT_OK(tcsetattr(p.slave, TCSANOW, &t));
  char buffer[16];
  EXPECT_EQ(read(p.slave, buffer, sizeof buffer), 0);
  t.c_cc[VTIME] = 1;
  ASSERT_OK(tcsetattr(p.slave, TCSANOW, &t));
  EXPECT_EQ(read(p.slave, buffer, sizeof buffer), 0);
  type(p.master, "\003\r");
  EXPECT_EQ(read_bytes(p.slave, 2), "\003\r");
}

TEST(Pty, BytesWaiting) {
  Pair p = open_pair();
  set_local(p.slave, 0, ECHO);
  int n = -1;
  type(p.master, "abc");
  ASSERT_OK(ioctl(p.slave, FIONREAD, &n));
  EXPECT_EQ(n, 0);
  type(p.master, "\n");
  ASSERT_TRUE(readable(p.slave));
  ASSERT_OK(ioctl(p.slave, FIONREAD, &n));
  EXPECT_EQ(n, 4);
  ASSERT_OK(tcflush(p.slave, TCIFLUSH));
  EXPECT_FALSE(readable(p.slave, 50));
}

TEST(Pty, MasterSeesTheLastSlaveGo) {
  Pair p = open_pair();
  ASSERT_EQ(write(p.slave, "x", 1), 1);
  p.slave.reset();
  EXPECT_EQ(read_some(p.master), "x");
  char c;
  EXPECT_ERRNO(read(p.master, &c, 1), EIO);
  pollfd poll_fd{.fd = p.master, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&poll_fd, 1, 0), 1);
  EXPECT_TRUE(poll_fd.revents & POLLHUP);
}

TEST(Pty, SlaveAfterHangUp) {
  Pair p = open_pair();
  p.master.reset();
  char c = 0;
  EXPECT_EQ(read(p.slave, &c, 1), 0);
  EXPECT_ERRNO(write(p.slave, "x", 1), EIO);
}

// A child that leads a session of its own on the slave.
template <typename Body>
pid_t session_on(Pair& p, Body body) {
  const pid_t child = fork();
  if (child != 0) return child;
  CHILD_CHECK(setsid() > 0);
  CHILD_CHECK(open("/dev/tty", O_RDWR) < 0 && errno == ENXIO);
  p.slave.reset();
  const int tty = open(slave_name(p.master).c_str(), O_RDWR);
  p.master.reset();
  CHILD_CHECK(tty >= 0);
  body(tty);
  _exit(0);
}

int status_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Pty, OpenGivesTheControllingTerminal) {
  Pair p = open_pair();
  const pid_t child = session_on(p, [](int tty) {
    CHILD_CHECK(tcgetpgrp(tty) == getpgrp());
    CHILD_CHECK(tcgetsid(tty) == getpid());
    const int again = open("/dev/tty", O_RDWR);
    CHILD_CHECK(again >= 0 && isatty(again));
    CHILD_CHECK(write(again, "hello", 5) == 5);
  });
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(read_bytes(p.master, 5), "hello");
}

TEST(Pty, KeyboardInterrupts) {
  Pair p = open_pair();
  const pid_t child = session_on(p, [](int tty) {
    CHILD_CHECK(write(tty, "R", 1) == 1);
    for (;;) pause();
  });
  EXPECT_EQ(read_bytes(p.master, 1), "R");
  type(p.master, "\003");
  const int status = status_of(child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

TEST(Pty, HangUpReachesTheLeader) {
  Pair p = open_pair();
  const pid_t child = session_on(p, [](int tty) {
    CHILD_CHECK(write(tty, "R", 1) == 1);
    for (;;) pause();
  });
  EXPECT_EQ(read_bytes(p.master, 1), "R");
  p.master.reset();
  const int status = status_of(child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP) << status;
}

TEST(Pty, BackgroundReadStops) {
  Pair p = open_pair();
  const pid_t child = session_on(p, [](int tty) {
    const pid_t reader = fork();
    if (reader == 0) {
      setpgid(0, 0);
      char c;
      (void)!read(tty, &c, 1);
      _exit(0);
    }
    int status = 0;
    CHILD_CHECK(waitpid(reader, &status, WUNTRACED) == reader);
    CHILD_CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTTIN);
    kill(reader, SIGKILL);
    CHILD_CHECK(waitpid(reader, &status, 0) == reader);
  });
  EXPECT_EQ(status_of(child), 0);
}

TEST(Pty, BackgroundWriteStopsOnlyWithTostop) {
  Pair p = open_pair();
  const pid_t child = session_on(p, [](int tty) {
    termios t{};
    CHILD_CHECK(tcgetattr(tty, &t) == 0);
    for (const bool stops : {false, true}) {
      t.c_lflag = stops ? t.c_lflag | TOSTOP : t.c_lflag & ~TOSTOP;
      CHILD_CHECK(tcsetattr(tty, TCSANOW, &t) == 0);
      const pid_t writer = fork();
      if (writer == 0) {
        setpgid(0, 0);
        _exit(write(tty, "w", 1) == 1 ? 0 : 1);
      }
      int status = 0;
      CHILD_CHECK(waitpid(writer, &status, WUNTRACED) == writer);
      CHILD_CHECK(stops ? WIFSTOPPED(status) && WSTOPSIG(status) == SIGTTOU : status == 0);
      kill(writer, SIGKILL);
      if (stops) CHILD_CHECK(waitpid(writer, &status, 0) == writer);
    }
  });
  EXPECT_EQ(status_of(child), 0);
}

TEST(Pty, ResizeSignalsTheForeground) {
  Pair p = open_pair();
  const pid_t child = session_on(p, [](int tty) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    CHILD_CHECK(write(tty, "R", 1) == 1);
    int signo = 0;
    CHILD_CHECK(sigwait(&set, &signo) == 0 && signo == SIGWINCH);
    winsize size{};
    CHILD_CHECK(ioctl(tty, TIOCGWINSZ, &size) == 0 && size.ws_row == 40 && size.ws_col == 100);
  });
  EXPECT_EQ(read_bytes(p.master, 1), "R");
  const winsize size{.ws_row = 40, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_OK(ioctl(p.master, TIOCSWINSZ, &size));
  EXPECT_EQ(status_of(child), 0);
}

}  // namespace
