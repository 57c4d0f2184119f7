// Hand-offs that lie: forged slots, tokens, events, results; clones that are not what was ordered.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "tests/hostile/hostile.h"

namespace hostile {
namespace {

int64_t now_ms() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1000 + ts.tv_nsec / 1'000'000;
}

// Ends this process natively, whatever its slot says.
[[noreturn]] void leave() {
  for (;;) gadget(SYS_exit_group, 0);
}
// In a cloned child that never says hello: it has no window, so that no call of the guest is
// possible.
[[noreturn]] void spin() {
  for (;;) __asm__ volatile("pause");
}

HOSTILE_CASE(handoff_of_another_slot, kKilled) {
  gadget(SYS_getppid, UKS_HANDOFF_MAGIC, UKS_HANDOFF, 1);
}
HOSTILE_CASE(handoff_of_a_slot_beyond_all, kKilled) {
  gadget(SYS_getppid, UKS_HANDOFF_MAGIC, UKS_HANDOFF, ~0ull);
}
HOSTILE_CASE(handoff_of_no_kind, kKilled) { gadget(SYS_getppid, UKS_HANDOFF_MAGIC, 77, 0); }
HOSTILE_CASE(hello_without_token, kKilled) { gadget(SYS_getppid, UKS_HANDOFF_MAGIC, UKS_HELLO, 0); }
HOSTILE_CASE(hello_of_the_pool, kKilled) { gadget(SYS_getppid, UKS_HANDOFF_MAGIC, UKS_HELLO, 1); }
HOSTILE_CASE(hello_with_random_token, kKilled) {
  gadget(SYS_getppid, UKS_HANDOFF_MAGIC, UKS_HELLO, 0x123456789abcdef);
}
HOSTILE_CASE(hello_with_own_old_token, kKilled) {
  if (fork() == 0) _exit(0);
  wait(nullptr);
  gadget(SYS_getppid, UKS_HANDOFF_MAGIC, UKS_HELLO, stub().slot(kMainSlot)->token);
}
// A thread that the sentry knows claims the child it was told to make.
HOSTILE_CASE(hello_for_the_own_child, kKilled) {
  call_by_hand(SYS_fork);
  gadget(SYS_getppid, UKS_HANDOFF_MAGIC, UKS_HELLO, stub().slot(kMainSlot)->token);
}

// The stub's own record of its index is the guest's to change.
HOSTILE_CASE(wrong_index_in_the_area, kKilled) {
  stub().area(kMainSlot)->index = 5;
  (void)syscall(SYS_getpid);
}

// Events and slots full of nonsense, in many processes one after the other.
void lie_at_random(uint64_t seed) {
  Random random(seed);
  uks_slot* slot = stub().slot(kMainSlot);
  for (int i = 0; i < 60; i++) {
    auto* words = reinterpret_cast<volatile uint32_t*>(slot);
    const unsigned count = static_cast<unsigned>(random() % 64);
    for (unsigned j = 0; j < count; j++) {
      words[random() % (sizeof(uks_slot) / 4)] =
          static_cast<uint32_t>(random() % 2 ? random() : random() % 16);
    }
    static const uint64_t calls[] = {SYS_getpid, SYS_read,         SYS_write, SYS_openat, SYS_mmap,
                                     SYS_futex,  SYS_rt_sigaction, SYS_kill,  SYS_execve, SYS_fork,
                                     SYS_vfork,  SYS_clone,        SYS_exit,  SYS_pipe,   SYS_poll};
    slot->nr = random() % 3 ? calls[random() % (sizeof calls / sizeof calls[0])] : random() % 600;
    if (slot->nr == SYS_kill) slot->args[0] = static_cast<uint64_t>(getpid());
    if (slot->nr == SYS_tkill || slot->nr == SYS_reboot) slot->nr = SYS_getpid;
    (void)hand_over(static_cast<uint32_t>(random() % 10));
  }
}
HOSTILE_CASE(random_handoffs, kAny) {
  (void)stub();
  const int64_t end = now_ms() + 2500;
  for (uint64_t seed = 1; now_ms() < end; seed++) {
    const pid_t child = fork();
    if (child == 0) {
      lie_at_random(seed);
      leave();
    }
    // It may well be blocked in a call it made up.
    const int64_t patience = now_ms() + 100;
    while (waitpid(child, nullptr, WNOHANG) == 0) {
      if (now_ms() > patience) kill(child, SIGKILL);
      sched_yield();
    }
  }
}

// A clone was ordered, and something else is reported.
HOSTILE_CASE(ordered_clone_then_another_call, kKilled) {
  call_by_hand(SYS_fork);
  call_by_hand(SYS_getpid);
  fail("it went on");
}
HOSTILE_CASE(clone_reported_that_was_not_made, kKilled) {
  call_by_hand(SYS_fork);
  stub().slot(kMainSlot)->result = getpid();
  (void)hand_over(UKS_EVENT_CLONED);
  fail("it went on");
}
// That is what the stub itself does when its area is spoilt: the guest gets EAGAIN and goes on.
HOSTILE_CASE(clone_reported_as_failed, kReturns) {
  call_by_hand(SYS_fork);
  stub().slot(kMainSlot)->result = -EINVAL;
  (void)hand_over(UKS_EVENT_CLONED);
  CHECK_THAT(getppid() == syscall(SYS_getppid));
}
// The child is called 4,000,001 in the report: no process of ours.
HOSTILE_CASE(clone_reported_with_wrong_pid, kKilled) {
  call_by_hand(SYS_fork);
  if (clone_as_ordered() == 0) spin();
  stub().slot(kMainSlot)->result = 4'000'001;
  (void)hand_over(UKS_EVENT_CLONED);
  fail("it went on");
}
// A child that never says hello is killed with its guest process.
HOSTILE_CASE(child_without_hello, kNever) {
  call_by_hand(SYS_fork);
  const long child = clone_as_ordered();
  if (child == 0) spin();
  stub().slot(kMainSlot)->result = child;
  (void)hand_over(UKS_EVENT_CLONED);
  for (;;) pause();
}
// Child processes that are denied afterwards: nobody would count them. One of them stays for as
// long as it may, the others leave, as many at once would only take the machine's time from other
// tests.
HOSTILE_CASE(denied_children, kKilled) {
  int made = 0;
  for (int i = 0; i < 100; i++) {
    call_by_hand(SYS_fork);
    const long child = clone_as_ordered();
    if (child == 0) {
      for (const int64_t end = now_ms() + 500; i == 0 || now_ms() < end;) __asm__ volatile("pause");
      leave();
    }
    if (child > 0) made++;
    stub().slot(kMainSlot)->result = -EAGAIN;
    (void)hand_over(UKS_EVENT_CLONED);
  }
  fail("%d children were made that nobody counts", made);
}
// A child that has said hello is denied.
HOSTILE_CASE(denied_known_child, kKilled) {
  call_by_hand(SYS_fork);
  const uint64_t token = stub().slot(kMainSlot)->token;
  if (clone_as_ordered() == 0) {
    gadget(SYS_getppid, UKS_HANDOFF_MAGIC, UKS_HELLO, token);
    spin();
  }
  // No call can be made before the report (the clock is read without one).
  for (const int64_t end = now_ms() + 300; now_ms() < end;) __asm__ volatile("pause");
  stub().slot(kMainSlot)->result = -EAGAIN;
  (void)hand_over(UKS_EVENT_CLONED);
  fail("it went on");
}
// The same with threads: the host process has more of them than were ordered.
HOSTILE_CASE(denied_threads, kKilled) {
  int made = 0;
  for (int i = 0; i < 60; i++) {
    void* stack = mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    call_by_hand(SYS_clone,
                 CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
                 reinterpret_cast<uint64_t>(stack) + 16384);
    CHECK_THAT(stub().slot(kMainSlot)->action == UKS_ACTION_CLONE);
    // The stub knows a new thread by the zero at its stack's top and would say hello for it. We put
    // the address of a loop there.
    *reinterpret_cast<uint64_t*>(stub().slot(kMainSlot)->clone_args[1]) =
        reinterpret_cast<uint64_t>(&spin);
    if (clone_as_ordered() > 0) made++;
    stub().slot(kMainSlot)->result = -EAGAIN;
    (void)hand_over(UKS_EVENT_CLONED);
  }
  fail("%d threads were made that nobody counts", made);
}

// A thread that runs and never says hello: it cannot be kicked.
void make_silent_thread(void (*body)()) {
  static char stack[65536] __attribute__((aligned(4096)));
  call_by_hand(SYS_clone,
               CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
               reinterpret_cast<uint64_t>(stack + sizeof stack));
  uks_slot* slot = stub().slot(kMainSlot);
  CHECK_THAT(slot->action == UKS_ACTION_CLONE);
  *reinterpret_cast<uint64_t*>(slot->clone_args[1]) = reinterpret_cast<uint64_t>(body);
  const long thread = clone_as_ordered();
  CHECK_THAT(thread > 0);
  slot->result = thread;
  (void)hand_over(UKS_EVENT_CLONED);
}
HOSTILE_CASE(silent_thread, kKilledLate) {
  make_silent_thread(spin);
  for (;;) pause();
}
volatile uint64_t* spins;
void count_spins() {
  for (;;) *spins = *spins + 1;
}
HOSTILE_CASE(silent_thread_is_stopped, kReturns) {
  (void)stub();
  spins = static_cast<uint64_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  CHECK_THAT(spins != MAP_FAILED);
  const pid_t child = fork();
  if (child == 0) {
    make_silent_thread(count_spins);
    for (;;) pause();
  }
  const auto counts = [](int ms) {
    const uint64_t before = *spins;
    for (int i = 0; i < ms / 10 && *spins == before; i++) usleep(10'000);
    return *spins != before;
  };
  CHECK_THAT(counts(2000));
  CHECK_THAT(kill(child, SIGSTOP) == 0);
  int status = 0;
  CHECK_THAT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
  for (int tries = 0; counts(100); tries++) CHECK_THAT(tries < 300);
  CHECK_THAT(kill(child, SIGCONT) == 0);
  CHECK_THAT(counts(2000));
  CHECK_THAT(kill(child, SIGKILL) == 0);
  CHECK_THAT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

// A process says the hello of a thread that another thread of the same program was told to make: it
// would live on as a process that nobody knows.
std::atomic<uint64_t> other_token;
void* order_a_thread(void*) {
  // This thread's slot is 1: it goes around the stub as well.
  static char stack[65536];
  uks_slot* slot = stub().slot(1);
  slot->range_count = 0;
  slot->nr = SYS_clone;
  slot->args[0] = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  slot->args[1] = reinterpret_cast<uint64_t>(stack + sizeof stack);
  slot->event = UKS_EVENT_SYSCALL;
  gadget(SYS_getppid, UKS_HANDOFF_MAGIC, UKS_HANDOFF, 1);
  if (slot->action != UKS_ACTION_CLONE) fail("no thread was ordered");
  other_token = slot->token;
  spin();
}
HOSTILE_CASE(process_with_a_thread_token, kKilled) {
  pthread_t thread;
  CHECK_THAT(pthread_create(&thread, nullptr, order_a_thread, nullptr) == 0);
  while (other_token == 0) sched_yield();
  call_by_hand(SYS_fork);
  const long child = clone_as_ordered();
  if (child == 0) {
    gadget(SYS_getppid, UKS_HANDOFF_MAGIC, UKS_HELLO, other_token);
    spin();
  }
  for (;;) pause();
}

// vfork: the child ends before its parent has reported it, and the parent reports something else.
HOSTILE_CASE(vfork_parent_in_another_call, kKilled) {
  int ends[2];
  CHECK_THAT(pipe(ends) == 0);
  call_by_hand(SYS_vfork);
  const long child = clone_as_ordered();
  (void)child;
  call_by_hand(SYS_read, static_cast<uint64_t>(ends[0]), reinterpret_cast<uint64_t>(&ends), 1);
  leave();
}

// Threads that end without a word, then a regular end of the process.
void* exit_silently(void*) {
  for (;;) gadget(SYS_exit, 0);
}
HOSTILE_CASE(silent_thread_exits, kReturns) {
  (void)stub();
  for (int i = 0; i < 200; i++) {
    pthread_t thread;
    CHECK_THAT(pthread_create(&thread, nullptr, exit_silently, nullptr) == 0);
  }
  usleep(100'000);
}

}  // namespace
}  // namespace hostile
