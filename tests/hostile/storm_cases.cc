// Guests whose memory is never at rest, and what that costs the others.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "tests/hostile/hostile.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace hostile {
namespace {

void sleep_ms(long ms) {
  const timespec t{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&t, nullptr);
}

// Holds the lock of the mappings as a reader, for long.
void* populate(void*) {
  constexpr size_t kSize = size_t{64} << 20;  // more makes single waits longer
  for (;;) {
    void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)madvise(memory, kSize, MADV_NOHUGEPAGE);
    (void)madvise(memory, kSize, MADV_POPULATE_WRITE);
    munmap(memory, kSize);
  }
}
// Wants it as a writer all the time: later readers queue behind.
void* remap(void*) {
  for (;;) {
    void* memory = mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(memory, 65536);
  }
}
// Calls that make the sentry read and write memory of this process, beyond what the stub fetches
// ahead, and ask for its mappings.
void* ask(void*) {
  constexpr size_t kSize = 4 << 20;
  static char buffer[kSize];
  static int word;
  memset(buffer, 1, kSize);
  const int file = memfd_create("storm", 0);
  int ends[2];
  if (pipe(ends) != 0) return nullptr;
  fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  for (;;) {
    (void)!pwrite(file, buffer, kSize, 0);
    (void)!pread(file, buffer, kSize, 0);
    (void)!write(ends[1], buffer, 1 << 19);
    (void)!read(ends[0], buffer, 1 << 19);
    (void)mlock(buffer, kSize);
    (void)syscall(SYS_futex, &word, 1, 1, nullptr, nullptr, 0);
  }
}

[[noreturn]] void storm() {
  // Futex words in it may be shared from now on.
  (void)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_t thread;
  for (auto* body : {populate, remap, ask, ask}) pthread_create(&thread, nullptr, body, nullptr);
  for (;;) sleep_ms(1000);
}

// A process that counts its rounds through a pipe.
class Bystander {
 public:
  Bystander() {
    void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK_THAT(page != MAP_FAILED);
    rounds_ = static_cast<std::atomic<uint64_t>*>(page);
    pid_ = fork();
    if (pid_ != 0) return;
    int ends[2];
    CHECK_THAT(pipe(ends) == 0);
    for (char c = 0;; ++*rounds_) {
      if (write(ends[1], &c, 1) != 1 || read(ends[0], &c, 1) != 1) _exit(1);
    }
  }
  // Rounds a second, measured for so long.
  uint64_t rate(long ms) const {
    const uint64_t before = *rounds_;
    sleep_ms(ms);
    return (*rounds_ - before) * 1000 / static_cast<uint64_t>(ms);
  }
  void end() const { kill_and_wait(pid_); }

  static void kill_and_wait(pid_t pid) {
    int status = 0;
    kill(pid, SIGKILL);
    CHECK_THAT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
  }

 private:
  std::atomic<uint64_t>* rounds_;
  pid_t pid_;
};

HOSTILE_CASE(memory_storm, kReturns) {
  const Bystander bystander;
  sleep_ms(100);
  const uint64_t alone = bystander.rate(300);
  const pid_t child = fork();
  if (child == 0) storm();
  sleep_ms(500);
  const uint64_t beside = bystander.rate(1000);
  Bystander::kill_and_wait(child);
  bystander.end();
  // Two cores and four threads in between are a factor of their own.
  if (beside * 20 < alone) fail("%lu rounds a second, alone %lu", beside, alone);
}

// ---- Many kinds of calls at once, each short

char* shared_buffer;
int shared_word;

void* replace_buffer(void*) {
  for (;;) {
    munmap(shared_buffer, 1 << 20);
    (void)mmap(shared_buffer, 1 << 20, PROT_READ | PROT_WRITE,
               MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
}
void* read_into_buffer(void*) {
  const int file = open("/etc/services", O_RDONLY);
  const int null = open("/dev/null", O_WRONLY);
  for (;;) {
    (void)!pread(file, shared_buffer, 65536, 0);
    (void)!write(null, shared_buffer, 1);
  }
}
void* wait_and_requeue(void*) {
  const timespec moment{0, 100'000};
  for (;;) {
    (void)syscall(SYS_futex, &shared_word, FUTEX_WAIT, 0, &moment);
    (void)syscall(SYS_futex, &shared_word, FUTEX_CMP_REQUEUE, 1, 1, &shared_word, 0);
    (void)syscall(SYS_futex, &shared_word, FUTEX_WAKE, 100);
  }
}
void* nest_epolls(void*) {
  for (;;) {
    const int outer = epoll_create1(0);
    const int inner = epoll_create1(0);
    const int event = eventfd(1, 0);
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    epoll_ctl(outer, EPOLL_CTL_ADD, inner, &wanted);
    epoll_ctl(inner, EPOLL_CTL_ADD, outer, &wanted);
    epoll_ctl(outer, EPOLL_CTL_ADD, event, &wanted);
    (void)epoll_wait(outer, &wanted, 1, 0);
    for (const int fd : {outer, inner, event}) close(fd);
  }
}
void* send_itself(void*) {
  for (;;) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) continue;
    for (const int fd : {ends[0], ends[1]}) {
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
      char byte = 0;
      iovec part{&byte, 1};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof fd);
      memcpy(CMSG_DATA(header), &fd, sizeof fd);
      (void)sendmsg(ends[0], &message, MSG_DONTWAIT);
    }
    close(ends[0]);
    close(ends[1]);
  }
}
void* signal_itself(void*) {
  for (;;) kill(getpid(), SIGUSR1);
}

// Of each kind one, and two more of one, or of the first two.
[[noreturn]] void mixed(unsigned favourite) {
  void* (*const kinds[])(void*) = {replace_buffer, read_into_buffer, wait_and_requeue,
                                   nest_epolls,    send_itself,      signal_itself};
  signal(SIGUSR1, [](int) {});
  shared_buffer = static_cast<char*>(
      mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (unsigned kind = 0; kind < std::size(kinds); kind++) {
    const bool more = kind == favourite || (kind == 0 && favourite == 1);
    for (int i = 0; i < (more ? 3 : 1); i++) {
      pthread_t thread;
      pthread_create(&thread, nullptr, kinds[kind], nullptr);
    }
  }
  for (;;) sleep_ms(1000);
}

void many_kinds_at_once() {
  const Bystander bystander;
  sleep_ms(100);
  const uint64_t alone = bystander.rate(300);
  pid_t children[6];
  for (unsigned i = 0; i < std::size(children); i++) {
    children[i] = fork();
    if (children[i] == 0) mixed(i);
  }
  sleep_ms(500);
  const uint64_t beside = bystander.rate(2000);
  for (const pid_t child : children) Bystander::kill_and_wait(child);
  bystander.end();
  // Of 49 threads it has a fiftieth of the calls, and the machine may have other work. Where
  // receivers wait for processors it is a five-hundredth.
  if (beside * 200 < alone) fail("%lu rounds a second, alone %lu", beside, alone);
}
HOSTILE_CASE(mixed_storm, kReturns) { many_kinds_at_once(); }
HOSTILE_CASE(traced_mixed_storm, kReturns) { many_kinds_at_once(); }

// Calls that the stub serves itself are stops for the tracer all the same, each served at once:
// answers to others have to have their turns.
HOSTILE_CASE(traced_cheap_stops, kReturns) {
  pid_t children[40];
  for (pid_t& child : children) {
    child = fork();
    if (child == 0) {
      for (;;) (void)syscall(SYS_brk, 0);
    }
  }
  sleep_ms(500);
  for (int i = 0; i < 100; i++) (void)syscall(SYS_getppid);
  for (const pid_t child : children) kill(child, SIGKILL);
}

// Memory by orders, beside processes that come and go.
HOSTILE_CASE(traced_by_order_beside_forks, kReturns) {
  pid_t forking[2];
  for (pid_t& parent : forking) {
    parent = fork();
    if (parent != 0) continue;
    for (;;) {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      waitpid(child, nullptr, 0);
    }
  }
  const pid_t waiter = fork();
  if (waiter == 0) {
    static int word;
    for (int i = 0; i < 50; i++) {
      CHECK_THAT(syscall(SYS_futex, &word, 128 /* FUTEX_WAIT_PRIVATE */, 1, nullptr, nullptr, 0) ==
                     -1 &&
                 errno == EAGAIN);
    }
    _exit(0);
  }
  int status = 0;
  CHECK_THAT(waitpid(waiter, &status, 0) == waiter);
  for (const pid_t parent : forking) kill(parent, SIGKILL);
  if (status != 0) fail("status %#x", static_cast<unsigned>(status));
}

}  // namespace
}  // namespace hostile
