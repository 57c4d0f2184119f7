// Signal frames in guest memory: building them for a handler, reading them back for rt_sigreturn.
#include "platform/stub/stub.h"

enum { kFxsaveSize = 512, kSwReserved = 464, kMxcsr = 24, kXsaveHeader = 512, kRedZone = 128 };
enum { kFpXstateMagic = 0x46505853 };
enum { kEflagsTf = 0x100, kEflagsDf = 0x400, kEflagsRf = 0x10000 };
// Flags a frame may set: the arithmetic ones, TF, DF, AC, RF, NT as FIX_EFLAGS in the kernel.
enum { kEflagsSettable = 0x50dd5 };

struct rt_sigframe {
  uint64_t return_address;
  struct kernel_ucontext uc;
  unsigned char info[128];
};

uint64_t fpstate_size(const struct kernel_ucontext* uc) {
  if (!uc->fpstate) return 0;
  const uint32_t* sw = (const uint32_t*)(uc->fpstate + kSwReserved);
  if (sw[0] != kFpXstateMagic || sw[1] < kFxsaveSize || sw[1] > 0x3800) return kFxsaveSize;
  return sw[1];
}

void reset_fpu(struct kernel_ucontext* uc) {
  if (!uc->fpstate) return;
  *(uint32_t*)(uc->fpstate + kMxcsr) = 0x1f80;
  if (fpstate_size(uc) > kFxsaveSize) {
    // No component is "in use": XRSTOR initializes them all.
    *(uint64_t*)(uc->fpstate + kXsaveHeader) = 0;
  } else {
    *(uint16_t*)uc->fpstate = 0x37f;
  }
}

static int on_stack(uint64_t sp, uint64_t base, uint64_t size) { return sp > base && sp - base <= size; }

long build_signal_frame(struct kernel_ucontext* uc, const struct uks_signal* signal) {
  uint64_t sp = uc->rsp - kRedZone;
  if (signal->use_alt && !on_stack(uc->rsp, signal->alt_base, signal->alt_size)) {
    sp = signal->alt_base + signal->alt_size;
  }
  const uint64_t fp_size = fpstate_size(uc);
  const uint64_t fp = (sp - fp_size) & ~63ull;
  const uint64_t frame_at = ((fp - sizeof(struct rt_sigframe)) & ~15ull) - 8;
  // Overflow of the alternate stack is a fault of the guest, as in get_sigframe().
  if (signal->use_alt && frame_at < signal->alt_base) return -1;

  struct kernel_ucontext saved = *uc;
  saved.link = 0;
  saved.stack.base = signal->alt_base;
  saved.stack.size = signal->alt_size;
  saved.stack.flags = (int32_t)signal->alt_flags;
  saved.fpstate = fp_size ? fp : 0;
  saved.sigmask = signal->old_mask;
  saved.oldmask = signal->old_mask;
  struct rt_sigframe* frame = (struct rt_sigframe*)frame_at;
  if (fp_size && stub_copy((void*)fp, (const void*)uc->fpstate, fp_size)) return -1;
  if (stub_copy(&frame->return_address, &signal->restorer, 8)) return -1;
  if (stub_copy(&frame->uc, &saved, sizeof saved)) return -1;
  if (stub_copy(frame->info, signal->info, sizeof frame->info)) return -1;

  uc->rip = signal->handler;
  uc->rsp = frame_at;
  uc->rdi = signal->signo;
  uc->rsi = (uint64_t)frame->info;
  uc->rdx = (uint64_t)&frame->uc;
  uc->rax = 0;
  uc->eflags &= ~(uint64_t)(kEflagsTf | kEflagsDf | kEflagsRf);
  reset_fpu(uc);
  return 0;
}

long read_signal_frame(struct kernel_ucontext* uc, struct kernel_stack* stack, uint64_t* mask) {
  struct kernel_ucontext saved;
  if (stub_copy(&saved, (const void*)uc->rsp, sizeof saved)) return -1;
  const uint64_t own_size = fpstate_size(uc);
  if (!saved.fpstate) {
    reset_fpu(uc);
  } else if (own_size) {
    uint32_t sw[2];
    if (stub_copy(sw, (const void*)(saved.fpstate + kSwReserved), sizeof sw)) return -1;
    const int whole = sw[0] == kFpXstateMagic && sw[1] == own_size;
    uint64_t sw_own[6];
    if (!whole && stub_copy(sw_own, (const void*)(uc->fpstate + kSwReserved), sizeof sw_own)) return -1;
    if (stub_copy((void*)uc->fpstate, (const void*)saved.fpstate, whole ? own_size : kFxsaveSize)) return -1;
    if (!whole) {
      // A legacy frame: x87 and SSE from it, the rest in its initial state.
      if (stub_copy((void*)(uc->fpstate + kSwReserved), sw_own, sizeof sw_own)) return -1;
      if (own_size > kFxsaveSize) *(uint64_t*)(uc->fpstate + kXsaveHeader) = 3;
    }
  }
  uc->r8 = saved.r8, uc->r9 = saved.r9, uc->r10 = saved.r10, uc->r11 = saved.r11;
  uc->r12 = saved.r12, uc->r13 = saved.r13, uc->r14 = saved.r14, uc->r15 = saved.r15;
  uc->rdi = saved.rdi, uc->rsi = saved.rsi, uc->rbp = saved.rbp, uc->rbx = saved.rbx;
  uc->rdx = saved.rdx, uc->rax = saved.rax, uc->rcx = saved.rcx;
  uc->rsp = saved.rsp, uc->rip = saved.rip;
  uc->eflags = (uc->eflags & ~(uint64_t)kEflagsSettable) | (saved.eflags & kEflagsSettable);
  *stack = saved.stack;
  *mask = saved.sigmask;
  return 0;
}
