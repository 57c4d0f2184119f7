// The stub seen from guest code: where it is, and calls that go around it.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "tests/hostile/hostile.h"

__asm__(R"(
        .text
        .globl hostile_gadget_call
        .type hostile_gadget_call, @function
# long hostile_gadget_call(gadget, nr, a1, a2, a3, a4, a5, a6)
hostile_gadget_call:
        push %rbx
        mov %rdi, %rbx
        mov %rsi, %rax
        mov %rdx, %rdi
        mov %rcx, %rsi
        mov %r8, %rdx
        mov %r9, %r10
        mov 16(%rsp), %r8
        mov 24(%rsp), %r9
        call *%rbx
        pop %rbx
        ret
)");
extern "C" long hostile_gadget_call(uint64_t gadget, long nr, uint64_t a1, uint64_t a2, uint64_t a3,
                                    uint64_t a4, uint64_t a5, uint64_t a6);

namespace hostile {
namespace {

sigjmp_buf on_fault;

// System calls have no business there: the program looks itself.
bool peek(uint64_t addr, void* to, size_t n) {
  if (sigsetjmp(on_fault, 1) != 0) return false;
  memcpy(to, reinterpret_cast<const void*>(addr), n);
  return true;
}

Stub find_stub() {
  struct sigaction look{}, before{};
  look.sa_handler = [](int) { siglongjmp(on_fault, 1); };
  if (sigaction(SIGSEGV, &look, &before) != 0) fail("no handler");
  void* near = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t start = reinterpret_cast<uint64_t>(near) & ~uint64_t{0xffff};
  // The window is 64 MiB of readable memory without a hole.
  constexpr uint64_t kStep = 32 << 20;
  for (uint64_t i = 1; i < 8192; i++) {
    for (const uint64_t at : {start + i * kStep, start - i * kStep}) {
      char byte;
      if (!peek(at, &byte, 1)) continue;
      for (uint64_t base = at; base > at - UKS_STUB_REGION; base -= 0x10000) {
        Stub found{base, {}};
        if (peek(base, &found.header, sizeof found.header) &&
            found.header.magic == UKS_STUB_MAGIC) {
          sigaction(SIGSEGV, &before, nullptr);
          return found;
        }
      }
    }
  }
  fail("the stub was not found: this program runs under `uks exec`");
}

}  // namespace

const Stub& stub() {
  static const Stub found = find_stub();
  return found;
}

long gadget(long nr, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6) {
  return hostile_gadget_call(stub().gadget(), nr, a1, a2, a3, a4, a5, a6);
}

long hand_over(uint32_t event) {
  stub().slot(kMainSlot)->event = event;
  return gadget(SYS_getppid, UKS_HANDOFF_MAGIC, UKS_HANDOFF, kMainSlot);
}

void call_by_hand(uint64_t nr, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5,
                  uint64_t a6) {
  uks_slot* slot = stub().slot(kMainSlot);
  slot->range_count = 0;
  slot->nr = nr;
  const uint64_t args[6] = {a1, a2, a3, a4, a5, a6};
  memcpy(slot->args, args, sizeof args);
  (void)hand_over(UKS_EVENT_SYSCALL);
}

long clone_as_ordered() {
  const uks_slot* slot = stub().slot(kMainSlot);
  if (slot->action != UKS_ACTION_CLONE) fail("no clone was ordered: action %u", slot->action);
  uint64_t a[6];
  memcpy(a, slot->clone_args, sizeof a);
  return gadget(SYS_clone, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // namespace hostile
