// The stub's own memory under attack: scribbled over, unmapped, protected; forged signal frames.
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "tests/hostile/hostile.h"

namespace hostile {
namespace {

int64_t now_ms() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1000 + ts.tv_nsec / 1'000'000;
}

// Calls of all kinds whose arguments and results travel through the slot.
void work_until(int64_t end) {
  int ends[2];
  char buffer[3000];
  const char* argv[] = {"/bin/true", "a", "b", nullptr};
  while (now_ms() < end) {
    (void)syscall(SYS_getpid);
    if (pipe(ends) == 0) {
      (void)!write(ends[1], buffer, sizeof buffer);
      (void)!read(ends[0], buffer, sizeof buffer);
      close(ends[0]);
      close(ends[1]);
    }
    (void)access("/etc/passwd", R_OK);
    (void)!readlink("/proc/self/exe", buffer, sizeof buffer);
    (void)syscall(SYS_execve, "/no/such/program", argv, argv);
    (void)syscall(SYS_poll, nullptr, 0, 0);
  }
}

// Writes at random into the header and data of slot `index` for as long as the process lives.
struct Scribble {
  unsigned index;
  uint64_t seed;
  bool events;  // also what the sentry reads first
};
[[noreturn]] void scribble(const Scribble& what) {
  Random random(what.seed);
  uks_slot* slot = stub().slot(what.index);
  auto* words = reinterpret_cast<volatile uint32_t*>(slot);
  for (;;) {
    switch (random() % 4) {
      case 0:
        words[random() % (UKS_SLOT_SIZE / 4)] = static_cast<uint32_t>(random());
        break;
      case 1: {
        volatile uks_range* range = &slot->ranges[random() % UKS_MAX_RANGES];
        range->offset = static_cast<uint32_t>(random() % 2 ? random() : random() % 0x20000);
        range->length = static_cast<uint32_t>(random() % 2 ? random() : random() % 0x20000);
        range->count = static_cast<uint32_t>(random());
        break;
      }
      case 2:
        *const_cast<volatile uint32_t*>(&slot->range_count) = static_cast<uint32_t>(random() % 8);
        break;
      default:
        if (what.events) {
          *const_cast<volatile uint32_t*>(&slot->event) = static_cast<uint32_t>(random() % 9);
          *const_cast<volatile uint64_t*>(&slot->nr) = random() % 512;
        } else {
          // Of the data area: strings without end, changed lengths.
          words[UKS_SLOT_DATA / 4 + random() % 64] = static_cast<uint32_t>(random());
        }
    }
  }
}
void* scribble_thread(void* what) { scribble(*static_cast<const Scribble*>(what)); }

void scribble_while_working(bool events) {
  (void)stub();
  const int64_t end = now_ms() + 2000;
  for (uint64_t seed = 1; now_ms() < end; seed++) {
    const pid_t child = fork();
    if (child == 0) {
      static Scribble what;
      what = {kMainSlot, seed, events};
      pthread_t thread;
      if (pthread_create(&thread, nullptr, scribble_thread, &what) != 0) _exit(1);
      work_until(now_ms() + 400);
      for (;;) gadget(SYS_exit_group, 0);
    }
    const int64_t patience = now_ms() + 600;
    while (waitpid(child, nullptr, WNOHANG) == 0) {
      if (now_ms() > patience) kill(child, SIGKILL);
      usleep(500);
    }
  }
}
HOSTILE_CASE(scribble_ranges_and_data, kAny) { scribble_while_working(false); }
HOSTILE_CASE(scribble_events_and_numbers, kAny) { scribble_while_working(true); }

// All of the window at once, and zeroed pages in between.
void* wipe_thread(void*) {
  for (;;) {
    memset(stub().slot(0), 0xff, 64 * UKS_SLOT_SIZE);
    memset(stub().slot(0), 0, 64 * UKS_SLOT_SIZE);
  }
}
HOSTILE_CASE(wipe_the_window, kAny) {
  (void)stub();
  for (int i = 0; i < 5; i++) {
    const pid_t child = fork();
    if (child == 0) {
      pthread_t thread;
      if (pthread_create(&thread, nullptr, wipe_thread, nullptr) != 0) _exit(1);
      work_until(now_ms() + 300);
      for (;;) gadget(SYS_exit_group, 0);
    }
    const int64_t patience = now_ms() + 600;
    while (waitpid(child, nullptr, WNOHANG) == 0) {
      if (now_ms() > patience) kill(child, SIGKILL);
      usleep(500);
    }
  }
}

// ---- Parts of the stub go away
void unmap_then_call(uint64_t from, uint64_t size) {
  (void)gadget(SYS_munmap, from, size);
  (void)syscall(SYS_getpid);
}
HOSTILE_CASE(unmap_the_window, kKilled) {
  unmap_then_call(stub().base + UKS_STUB_WINDOW, UKS_WINDOW_SIZE);
}
HOSTILE_CASE(unmap_the_areas, kKilled) {
  unmap_then_call(stub().base + UKS_STUB_AREAS, uint64_t{UKS_SLOTS} * UKS_AREA_SIZE);
}
HOSTILE_CASE(unmap_the_text, kAny) { unmap_then_call(stub().base, UKS_STUB_TEXT_SIZE); }
HOSTILE_CASE(unmap_all_of_it, kAny) { unmap_then_call(stub().base, UKS_STUB_REGION); }
HOSTILE_CASE(unmap_the_address_space, kAny) {
  (void)gadget(SYS_munmap, 0x10000, 0x7ffffffef000 - 0x10000);
}
// For system calls the stub is no memory, whatever its protection.
HOSTILE_CASE(calls_on_the_stubs_memory, kReturns) {
  int ends[2];
  CHECK_THAT(pipe(ends) == 0);
  const uint64_t base = stub().base;
  static char byte = 'x';
  const unsigned char first = *reinterpret_cast<const unsigned char*>(base);
  for (const uint64_t at :
       {base, base + UKS_STUB_PROCESS, base + UKS_STUB_WINDOW + UKS_SLOT_SIZE}) {
    auto* const place = reinterpret_cast<char*>(at);
    for (const size_t n : {size_t{1}, size_t{50000}})
      CHECK_THAT(write(ends[1], place, n) == -1 && errno == EFAULT);
    CHECK_THAT(write(ends[1], &byte, 1) == 1);
    CHECK_THAT(read(ends[0], place, 1) == -1 && errno == EFAULT);
    CHECK_THAT(read(ends[0], place, 100000) == -1 && errno == EFAULT);
    CHECK_THAT(syscall(SYS_uname, place) == -1 && errno == EFAULT);
    // More pieces than the stub has orders for: the sentry writes.
    CHECK_THAT(write(ends[1], place, 1) == -1 && errno == EFAULT);
    iovec parts[60];
    char room[60];
    for (int i = 0; i < 60; i++) parts[i] = {room + i, 1};
    parts[59] = {place, 1};
    char many[59];
    memset(many, 'y', sizeof many);
    CHECK_THAT(write(ends[1], many, sizeof many) == 59);
    CHECK_THAT(readv(ends[0], parts, 60) == -1 && errno == EFAULT);
    CHECK_THAT(read(ends[0], room, sizeof room) == 60 && room[0] == 'x');
  }
  CHECK_THAT(*reinterpret_cast<const unsigned char*>(base) == first);
}
HOSTILE_CASE(write_protect_the_window, kKilled) {
  (void)gadget(SYS_mprotect, stub().base + UKS_STUB_WINDOW, UKS_WINDOW_SIZE, PROT_READ);
  (void)syscall(SYS_getpid);
}
HOSTILE_CASE(unreadable_window, kKilled) {
  (void)gadget(SYS_mprotect, stub().base + UKS_STUB_WINDOW, UKS_WINDOW_SIZE, PROT_NONE);
  (void)syscall(SYS_getpid);
}
HOSTILE_CASE(move_the_window, kKilled) {
  (void)gadget(SYS_mremap, stub().base + UKS_STUB_WINDOW, UKS_WINDOW_SIZE, UKS_WINDOW_SIZE,
               MREMAP_MAYMOVE | MREMAP_FIXED, stub().base - (uint64_t{1} << 30));
  (void)syscall(SYS_getpid);
}
// Private memory in the window's place: the sentry no longer sees what the stub writes.
HOSTILE_CASE(window_replaced, kAny) {
  (void)stub();
  (void)syscall(SYS_getpid);  // what the sentry will see again
  (void)gadget(SYS_mmap, stub().base + UKS_STUB_WINDOW, UKS_WINDOW_SIZE, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0ull, 0);
  for (int i = 0; i < 100; i++) (void)syscall(SYS_write, -1, "x", 1);
  for (;;) gadget(SYS_exit_group, 0);
}
HOSTILE_CASE(window_dropped_by_madvise, kReturns) {
  (void)gadget(SYS_madvise, stub().base + UKS_STUB_WINDOW, UKS_WINDOW_SIZE, MADV_DONTNEED);
  CHECK_THAT(syscall(SYS_getpid) == getpid());
}
// The window goes to the child as well, where its own should be.
HOSTILE_CASE(window_kept_over_fork, kAny) {
  (void)gadget(SYS_madvise, stub().base + UKS_STUB_WINDOW, UKS_WINDOW_SIZE, MADV_DOFORK);
  for (int i = 0; i < 20; i++) {
    if (fork() == 0) _exit(3);
    int status = 0;
    CHECK_THAT(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 3);
  }
}

// A thread takes the stub away from its siblings, who are in calls of all kinds.
void* sit_in_calls(void*) {
  int ends[2];
  char c;
  if (pipe(ends) == 0) (void)!read(ends[0], &c, 1);
  return nullptr;
}
void* keep_calling(void*) {
  for (;;) (void)syscall(SYS_getpid);
}
void unmap_under_threads(uint64_t from, uint64_t size) {
  pthread_t thread;
  for (int i = 0; i < 4; i++) {
    if (pthread_create(&thread, nullptr, i % 2 ? sit_in_calls : keep_calling, nullptr) != 0)
      fail("no thread");
  }
  usleep(20'000);
  (void)gadget(SYS_munmap, from, size);
  (void)syscall(SYS_getpid);
  for (;;) __asm__ volatile("pause");
}
HOSTILE_CASE(thread_unmaps_the_window, kKilled) {
  unmap_under_threads(stub().base + UKS_STUB_WINDOW, UKS_WINDOW_SIZE);
}
HOSTILE_CASE(thread_unmaps_the_areas, kKilled) {
  unmap_under_threads(stub().base + UKS_STUB_AREAS, uint64_t{UKS_SLOTS} * UKS_AREA_SIZE);
}

// ---- Forged signal frames
struct Frame {
  ucontext_t uc;
};
// Leaves through a frame of ours with this host mask and code segment; goes on at `to`.
[[noreturn]] void return_to(void (*to)(), uint64_t mask, uint16_t cs) {
  static char stack[65536] __attribute__((aligned(64)));
  static Frame frame;
  memset(&frame, 0, sizeof frame);
  frame.uc.uc_flags = 6;  // UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS
  frame.uc.uc_mcontext.gregs[REG_RIP] = reinterpret_cast<long long>(to);
  frame.uc.uc_mcontext.gregs[REG_RSP] = reinterpret_cast<long long>(stack + sizeof stack - 72);
  frame.uc.uc_mcontext.gregs[REG_EFL] = 0x202;
  frame.uc.uc_mcontext.gregs[REG_CSGSFS] = static_cast<long long>(uint64_t{0x2b} << 48 | cs);
  memcpy(&frame.uc.uc_sigmask, &mask, sizeof mask);
  // The host's alternate stack stays where the stub needs it.
  frame.uc.uc_stack.ss_sp = reinterpret_cast<char*>(stub().area(kMainSlot)) + UKS_AREA_STACK_TOP;
  frame.uc.uc_stack.ss_size = UKS_AREA_SIZE - UKS_AREA_STACK_TOP;
  const uint64_t gadget_address = stub().gadget();
  __asm__ volatile("mov %0, %%rsp\n\tmov $15, %%eax\n\tjmp *%1"
                   :
                   : "r"(&frame), "r"(gadget_address)
                   : "memory", "rax");
  __builtin_unreachable();
}
uint64_t bit(int signo) { return uint64_t{1} << (signo - 1); }

void call_and_leave() {
  (void)syscall(SYS_getpid);
  _exit(0);
}
HOSTILE_CASE(forged_frame, kReturns) { return_to(call_and_leave, 0, 0x33); }
// Calls trap by SIGSYS: a host thread that blocks it dies of its next call.
HOSTILE_CASE(block_the_trap_signal, kKilled) { return_to(call_and_leave, bit(SIGSYS), 0x33); }
HOSTILE_CASE(block_every_signal, kKilled) { return_to(call_and_leave, ~0ull, 0x33); }
// Kicks do not reach it: it must be killable all the same.
void just_spin() {
  for (;;) __asm__ volatile("pause");
}
HOSTILE_CASE(deaf_to_kicks, kNever) { return_to(just_spin, ~0ull, 0x33); }
// Nor do stop signals, which the sandbox carries out all the same.
volatile uint64_t* spins;
void count_spins() {
  for (;;) *spins = *spins + 1;
}
bool counts(int ms) {
  const uint64_t before = *spins;
  for (int i = 0; i < ms / 10; i++) {
    poll(nullptr, 0, 10);
    if (*spins != before) return true;
  }
  return false;
}
HOSTILE_CASE(deaf_to_stops, kReturns) {
  (void)stub();  // looked for once, which takes long on a busy machine
  spins = static_cast<uint64_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  CHECK_THAT(spins != MAP_FAILED);
  for (const int signo : {SIGSTOP, SIGTSTP}) {
    const pid_t child = fork();
    if (child == 0) return_to(count_spins, ~0ull, 0x33);
    CHECK_THAT(counts(1000));
    CHECK_THAT(kill(child, signo) == 0);
    int status = 0;
    CHECK_THAT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) &&
               WSTOPSIG(status) == signo);
    for (int tries = 0; counts(100); tries++) CHECK_THAT(tries < 10);
    CHECK_THAT(kill(child, SIGCONT) == 0);
    CHECK_THAT(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    CHECK_THAT(counts(1000));
    CHECK_THAT(kill(child, SIGSTOP) == 0);
    CHECK_THAT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    CHECK_THAT(kill(child, SIGKILL) == 0);
    CHECK_THAT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  }
}
HOSTILE_CASE(frame_into_compatibility_mode, kAny) { return_to(call_and_leave, 0, 0x23); }
HOSTILE_CASE(frame_with_kernel_segments, kAny) { return_to(call_and_leave, 0, 0x10); }
HOSTILE_CASE(frame_into_the_kernel, kAny) {
  return_to(reinterpret_cast<void (*)()>(0xffffffff81000000), 0, 0x33);
}
HOSTILE_CASE(frame_of_noise, kAny) {
  Random random(7);
  static uint64_t frame[256];
  for (uint64_t& word : frame) word = random();
  const uint64_t gadget_address = stub().gadget();
  __asm__ volatile("mov %0, %%rsp\n\tmov $15, %%eax\n\tjmp *%1"
                   :
                   : "r"(frame), "r"(gadget_address)
                   : "memory", "rax");
}
// The alternate stack where nothing is mapped: the next trap cannot be delivered.
HOSTILE_CASE(alternate_stack_into_nowhere, kKilled) {
  static Frame frame;
  frame.uc.uc_flags = 6;
  frame.uc.uc_mcontext.gregs[REG_RIP] = reinterpret_cast<long long>(&call_and_leave);
  static char stack[65536] __attribute__((aligned(64)));
  frame.uc.uc_mcontext.gregs[REG_RSP] = reinterpret_cast<long long>(stack + sizeof stack - 72);
  frame.uc.uc_mcontext.gregs[REG_EFL] = 0x202;
  frame.uc.uc_mcontext.gregs[REG_CSGSFS] = static_cast<long long>(uint64_t{0x2b} << 48 | 0x33);
  frame.uc.uc_stack.ss_sp = reinterpret_cast<void*>(0x10000);
  frame.uc.uc_stack.ss_size = 0x8000;
  const uint64_t gadget_address = stub().gadget();
  __asm__ volatile("mov %0, %%rsp\n\tmov $15, %%eax\n\tjmp *%1"
                   :
                   : "r"(&frame), "r"(gadget_address)
                   : "memory", "rax");
}

}  // namespace
}  // namespace hostile
