// Copy orders (platform/trap/copy_orders.cc) to stubs that do not do as they are told.
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

namespace hostile {
namespace {

constexpr size_t kBig = 100'000;  // more than a stub fetches ahead, or has room for
char big[kBig];

void sleep_ms(long ms) {
  const timespec t{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&t, nullptr);
}

uks_copy* copy_of(unsigned index) {
  return reinterpret_cast<uks_copy*>(stub().base + UKS_STUB_WINDOW + UKS_WINDOW_COPIES +
                                     uint64_t{index} * UKS_COPY_SIZE);
}

[[noreturn]] void spin() {
  for (;;) __asm__ volatile("pause");
}

// A call that needs this process's memory. Returns when the first turn has been said.
void be_told_to_copy() {
  (void)stub();
  const int file = memfd_create("copy", 0);
  CHECK_THAT(file >= 0);
  call_by_hand(SYS_pwrite64, static_cast<uint64_t>(file), reinterpret_cast<uint64_t>(big), kBig, 0);
  if (stub().slot(kMainSlot)->action != UKS_ACTION_COPY) fail("not told to copy");
}

HOSTILE_CASE(by_order_silent, kNever) {
  be_told_to_copy();
  spin();
}
HOSTILE_CASE(traced_by_order_silent, kNever) {
  be_told_to_copy();
  spin();
}
HOSTILE_CASE(by_order_dies, kKilled) {
  be_told_to_copy();
  for (;;) gadget(SYS_exit_group, 0);
}
HOSTILE_CASE(by_order_another_call, kKilled) {
  be_told_to_copy();
  call_by_hand(SYS_getpid);
  spin();
}
HOSTILE_CASE(by_order_reports_unasked, kKilled) {
  be_told_to_copy();
  (void)hand_over(UKS_EVENT_COPIED);
  spin();
}
HOSTILE_CASE(traced_by_order_reports_unasked, kKilled) {
  be_told_to_copy();
  (void)hand_over(UKS_EVENT_COPIED);
  spin();
}

// Results that cannot be, then an honest wait for the answer: whatever the sentry makes of it is a
// number.
HOSTILE_CASE(by_order_lies, kReturns) {
  for (const int64_t lie : {int64_t{-1}, int64_t{1} << 40, INT64_MIN, INT64_MAX, int64_t{0}}) {
    be_told_to_copy();
    uks_copy* copy = copy_of(kMainSlot);
    for (uint32_t turn = UKS_COPY_FIRST;;) {
      copy->result = lie;
      __atomic_store_n(&copy->done, turn, __ATOMIC_SEQ_CST);
      uint32_t next;
      while ((next = __atomic_load_n(&copy->turn, __ATOMIC_SEQ_CST)) == turn)
        __asm__ volatile("pause");
      if (next == UKS_COPY_ANSWERED) break;
      if (next == UKS_COPY_REPORT) fail("asked to report");
      turn = next;
    }
  }
}

// As many of them as would keep every thread of the sentry.
HOSTILE_CASE(by_order_many_silent, kReturns) {
  (void)stub();
  auto* told = static_cast<std::atomic<int>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  CHECK_THAT(told != MAP_FAILED);
  pid_t children[24];
  for (pid_t& child : children) {
    child = fork();
    if (child != 0) continue;
    be_told_to_copy();
    ++*told;
    spin();
  }
  // There are eight threads a listener, and two listeners: the last of these have to wait for the
  // end of the first.
  while (*told < 24) sleep_ms(10);
  for (int i = 0; i < 100; i++) (void)syscall(SYS_getppid);
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    int status = 0;
    CHECK_THAT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  }
}

// It is asked to copy for others' sake, in a call that waits.
HOSTILE_CASE(by_order_silent_for_others, kReturns) {
  (void)stub();
  const pid_t child = fork();
  if (child == 0) {
    // A kick between the writing of the slot and the hand-off reports the kick instead.
    while (stub().slot(kMainSlot)->action != UKS_ACTION_COPY) call_by_hand(SYS_pause);
    spin();
  }
  char name[64], text[256];
  snprintf(name, sizeof name, "/proc/%d/cmdline", child);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    const int file = open(name, O_RDONLY);
    CHECK_THAT(file >= 0 && read(file, text, sizeof text) >= 0);
    close(file);
  }
  CHECK_THAT(WIFSIGNALED(status));
}

// The words, the order and the bytes change all the time.
void* scribble(void* seed) {
  Random random(*static_cast<uint64_t*>(seed));
  auto* words = reinterpret_cast<volatile uint32_t*>(copy_of(kMainSlot));
  for (;;) {
    const uint64_t at = random() % 64 == 0 ? random() % (UKS_COPY_SIZE / 4) : random() % 16;
    words[at] = static_cast<uint32_t>(random() % 2 ? random() : random() % 8);
  }
}
void scribble_while_copying() {
  (void)stub();
  for (uint64_t seed = 1; seed <= 5; seed++) {
    const pid_t child = fork();
    if (child == 0) {
      static uint64_t own_seed;
      own_seed = seed;
      pthread_t thread;
      if (pthread_create(&thread, nullptr, scribble, &own_seed) != 0) _exit(1);
      const int file = memfd_create("copy", 0);
      for (;;) {
        (void)!pwrite(file, big, kBig, 0);
        (void)!pread(file, big, kBig, 0);
      }
    }
    sleep_ms(400);
    kill(child, SIGKILL);
    CHECK_THAT(waitpid(child, nullptr, 0) == child);
  }
}
HOSTILE_CASE(by_order_scribble, kReturns) { scribble_while_copying(); }
HOSTILE_CASE(traced_by_order_scribble, kReturns) { scribble_while_copying(); }

// The area goes away while the stub uses it.
HOSTILE_CASE(by_order_area_unmapped, kAny) {
  be_told_to_copy();
  const uint64_t areas = reinterpret_cast<uint64_t>(copy_of(0));
  (void)gadget(SYS_munmap, areas, uint64_t{UKS_SLOTS} * UKS_COPY_SIZE);
  for (;;) gadget(SYS_exit_group, 0);
}
HOSTILE_CASE(by_order_area_protected, kAny) {
  const uint64_t areas = reinterpret_cast<uint64_t>(copy_of(0));
  (void)gadget(SYS_mprotect, areas, uint64_t{UKS_SLOTS} * UKS_COPY_SIZE, PROT_NONE);
  const int file = memfd_create("copy", 0);
  alarm(2);
  (void)!pwrite(file, big, kBig, 0);
  for (;;) gadget(SYS_exit_group, 0);
}

// Mappings that change under the copying: the calls go on, the numbers are those of any kernel.
HOSTILE_CASE(by_order_mappings_change, kReturns) {
  static char* memory;
  memory = static_cast<char*>(
      mmap(nullptr, kBig, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK_THAT(memory != MAP_FAILED);
  pthread_t thread;
  const auto change = [](void*) -> void* {
    for (uint64_t i = 0;; i++) {
      char* page = memory + i % 24 * 4096;
      munmap(page, 4096);
      (void)mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0);
    }
  };
  CHECK_THAT(pthread_create(&thread, nullptr, change, nullptr) == 0);
  const int file = memfd_create("copy", 0);
  for (int i = 0; i < 200; i++) {
    (void)!pwrite(file, memory, kBig, 0);
    (void)!pread(file, memory, kBig, 0);
  }
}

}  // namespace
}  // namespace hostile
