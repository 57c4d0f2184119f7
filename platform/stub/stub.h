// What the stub's C files and its assembly share. Freestanding C: no libc, no vector registers.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "platform/channel/slot.h"

// ---- The kernel's signal frame on x86-64 (arch/x86/include/uapi/asm/{ucontext,sigcontext}.h).
struct kernel_stack {
  uint64_t base;
  int32_t flags;
  int32_t pad;
  uint64_t size;
};
struct kernel_ucontext {
  uint64_t flags;
  uint64_t link;
  struct kernel_stack stack;
  uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
  uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
  uint16_t cs, gs, fs, ss;
  uint64_t err, trapno, oldmask, cr2;
  uint64_t fpstate;
  uint64_t reserved[8];
  uint64_t sigmask;
};
_Static_assert(sizeof(struct kernel_ucontext) == 304, "as the kernel lays it out");

// ---- entry.S
// -fvisibility=hidden covers definitions only: clang would take these addresses from a GOT, which
// ld relaxes to the addresses of the link (0), not to those of the process.
#pragma GCC visibility push(hidden)
extern char stub_start[];
extern char stub_copy_begin[], stub_copy_end[], stub_copy_fixup[];
extern char stub_rest_insn[], stub_rest_fixup[];
extern char stub_text_end[];
#pragma GCC visibility pop
long stub_syscall(long nr, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5,
                  uint64_t a6);
_Noreturn void stub_sigreturn(struct kernel_ucontext* frame);
long stub_copy(void* to, const void* from, size_t n);
// As stub_copy, but returns how many bytes were not copied.
uint64_t stub_copy_rest(void* to, const void* from, size_t n);
long stub_copy_string(char* to, const char* from, size_t max);
long stub_zero(void* to, size_t n);
long stub_load64(const uint64_t* from, uint64_t* to);
long stub_cmpxchg32(uint32_t* p, uint32_t expected, uint32_t desired, uint32_t* old);
long stub_touch(char* at);
long stub_scatter(char* to, const uint16_t* from, uint64_t n, uint64_t stride);
void stub_set_fs(uint64_t base);
uint64_t stub_get_fs(void);
void stub_set_gs(uint64_t base);
uint64_t stub_get_gs(void);

// ---- where things are
static inline uint64_t region_base(void) { return (uint64_t)stub_start; }
static inline struct uks_stub_process* process_data(void) {
  return (struct uks_stub_process*)(region_base() + UKS_STUB_PROCESS);
}
// Whether an address lies in the stub's own region, which is no memory for system calls.
static inline int is_stubs(uint64_t addr) { return addr - region_base() < UKS_STUB_REGION; }
static inline struct uks_thread_area* area_at(uint64_t index) {
  return (struct uks_thread_area*)(region_base() + UKS_STUB_AREAS + index * UKS_AREA_SIZE);
}
static inline struct uks_thread_area* this_area(void) {
  uint64_t sp;
  __asm__("mov %%rsp, %0" : "=r"(sp));
  return (struct uks_thread_area*)(sp & ~(uint64_t)(UKS_AREA_SIZE - 1));
}
static inline struct uks_slot* slot_at(uint64_t index) {
  return (struct uks_slot*)(region_base() + UKS_STUB_WINDOW + (index % UKS_SLOTS) * UKS_SLOT_SIZE);
}

static inline struct uks_copy* copy_at(uint64_t index) {
  return (struct uks_copy*)(region_base() + UKS_STUB_WINDOW + UKS_WINDOW_COPIES +
                            (index % UKS_SLOTS) * UKS_COPY_SIZE);
}

// ---- frame.c
// Puts a signal frame as Linux builds it on the guest's stack and points `uc` at the handler.
// 0, or -1 if the stack cannot be written.
long build_signal_frame(struct kernel_ucontext* uc, const struct uks_signal* signal);
// Takes the registers of the guest's own frame at its rsp into `uc`. 0, or -1 if it cannot be read.
long read_signal_frame(struct kernel_ucontext* uc, struct kernel_stack* stack, uint64_t* mask);
// Clean FPU state on the next return through `uc`, as a handler or a new image gets it.
void reset_fpu(struct kernel_ucontext* uc);
// Bytes of the frame's XSAVE image.
uint64_t fpstate_size(const struct kernel_ucontext* uc);

// ---- prefetch.c
// Copies what the call's descriptors name into the slot, and looks where data can be put.
void prefetch_arguments(struct uks_slot* slot, uint64_t nr, const uint64_t* args);

// ---- memory.c
// Memory calls that the stub serves itself. Returns 1 and the result, or 0: ask the sentry.
int serve_memory_call(uint64_t nr, const uint64_t* args, long* result);
// Carries out one order of the sentry. `donated`: the descriptor that its mappings are of, if
// positive. `copied`: bytes copied out so far, by this and earlier orders of the reply.
long run_order(struct uks_slot* slot, const struct uks_order* order, long donated,
               uint64_t* copied);
// UKS_ACTION_COPY. Returns 1 when the answer is in the slot, 0 when it is to be asked for.
int copy_in_turns(struct uks_copy* copy);
