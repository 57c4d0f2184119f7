// Guests whose memory is never at rest, and what that costs the others.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

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

HOSTILE_CASE(memory_storm, kReturns) {
  auto* rounds = static_cast<std::atomic<uint64_t>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  CHECK_THAT(rounds != MAP_FAILED);
  const pid_t caller = fork();
  if (caller == 0) {
    int ends[2];
    CHECK_THAT(pipe(ends) == 0);
    for (char c = 0;; ++*rounds) {
      if (write(ends[1], &c, 1) != 1 || read(ends[0], &c, 1) != 1) _exit(1);
    }
  }
  const auto rate = [&](long ms) {
    const uint64_t before = *rounds;
    sleep_ms(ms);
    return (*rounds - before) * 1000 / static_cast<uint64_t>(ms);
  };
  sleep_ms(100);
  const uint64_t alone = rate(300);
  const pid_t child = fork();
  if (child == 0) storm();
  sleep_ms(500);
  const uint64_t beside = rate(1000);
  kill(child, SIGKILL);
  kill(caller, SIGKILL);
  int status = 0;
  CHECK_THAT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  CHECK_THAT(waitpid(caller, &status, 0) == caller && WIFSIGNALED(status));
  // Two cores and four threads in between are a factor of their own.
  if (beside * 20 < alone) fail("%lu rounds a second, alone %lu", beside, alone);
}

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
