// The stub: what runs in a guest process besides the guest. It turns traps into hand-offs to the
// sentry and carries out the answers. It trusts nothing of the guest and guards nothing: the seccomp
// filter is the boundary, and all that guest code could do to the stub harms only that guest.
#include "platform/stub/stub.h"

#include <asm/mman.h>
#include <asm/unistd.h>
#include <linux/mman.h>
#include <linux/sched.h>

#include "platform/channel/cpu_flags.h"
#include "platform/stub/offsets.h"

_Static_assert(UKS_ASM_MAGIC == UKS_STUB_MAGIC, "offsets.h");
_Static_assert(UKS_ASM_AREA_SIZE == UKS_AREA_SIZE, "offsets.h");

enum { kEnosys = 38, kEfault = 14, kEperm = 1, kEinval = 22 };
enum { kAuditArchX8664 = 0xc000003e, kX32Bit = 0x40000000 };
enum { kPrSetPdeathsig = 1, kSigkill = 9, kSysSeccomp = 1 };
enum { kArchSetGs = 0x1001, kArchSetFs = 0x1002, kArchGetFs = 0x1003, kArchGetGs = 0x1004 };
#define TASK_SIZE_MAX 0x7ffffffff000ull
// In a thread area: the first frame of a new thread and its XSAVE image.
enum { kAreaFrame = 0x200, kAreaFpu = 0x400 };

struct seccomp_siginfo {
  int32_t signo, error, code, pad;
  uint64_t call_addr;
  int32_t syscall;
  uint32_t arch;
};

// GCC calls these for struct copies even when freestanding.
void* memcpy(void* to, const void* from, size_t n) {
  void* result = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
  return result;
}
void* memset(void* to, int value, size_t n) {
  void* result = to;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
  return result;
}

static _Noreturn void die(void) {
  for (;;) stub_syscall(__NR_exit_group, kSigkill, 0, 0, 0, 0, 0);
}

static void alternate_stack_of(const struct uks_thread_area* area, struct kernel_stack* stack) {
  stack->base = (uint64_t)area + UKS_AREA_STACK_TOP;
  stack->flags = 0;
  stack->pad = 0;
  stack->size = UKS_AREA_SIZE - UKS_AREA_STACK_TOP;
}

static int no_fsgsbase(void) {
  return ((const struct uks_stub_cpu*)((char*)process_data() + UKS_STUB_CPU_OFFSET))->no_fsgsbase != 0;
}

// The bases of FS and GS; `op` is arch_prctl's. The filter allows that call where it is used.
static void set_base(int op, uint64_t base) {
  if (no_fsgsbase()) stub_syscall(__NR_arch_prctl, op, base, 0, 0, 0, 0);
  else if (op == kArchSetFs) stub_set_fs(base);
  else stub_set_gs(base);
}
static uint64_t get_base(int op) {
  if (!no_fsgsbase()) return op == kArchGetFs ? stub_get_fs() : stub_get_gs();
  uint64_t base = 0;
  stub_syscall(__NR_arch_prctl, op, (uint64_t)&base, 0, 0, 0, 0);
  return base;
}

// The first instruction of a new image: registers, FPU and signal state as after execve.
static _Noreturn void enter_image(struct uks_thread_area* area, uint64_t ip, uint64_t sp) {
  struct kernel_ucontext uc;
  memset(&uc, 0, sizeof uc);
  uc.flags = 6;  // UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS
  alternate_stack_of(area, &uc.stack);
  uc.rip = ip;
  uc.rsp = sp;
  uc.eflags = 0x202;
  uc.cs = 0x33;
  uc.ss = 0x2b;
  set_base(kArchSetFs, 0);
  set_base(kArchSetGs, 0);
  stub_sigreturn(&uc);  // no fpstate: the kernel resets the FPU
}

static void serve(struct uks_thread_area* area, struct kernel_ucontext* uc, uint32_t event);

// A new process, seen from inside: no window yet, and its parent's descriptor of it is closed.
static void be_new_process(struct uks_thread_area* area, struct kernel_ucontext* uc) {
  stub_syscall(__NR_prctl, kPrSetPdeathsig, kSigkill, 0, 0, 0, 0);
  const uint64_t window = region_base() + UKS_STUB_WINDOW;
  const long fd = stub_syscall(__NR_getppid, UKS_HANDOFF_MAGIC, UKS_HELLO, area->token, 0, 0, 0);
  if (fd <= 0) die();
  if (stub_syscall(__NR_mmap, window, UKS_WINDOW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (uint64_t)fd,
                   0) != (long)window) {
    die();
  }
  stub_syscall(__NR_madvise, window, UKS_WINDOW_SIZE, MADV_DONTFORK, 0, 0, 0);
  stub_syscall(__NR_close, (uint64_t)fd, 0, 0, 0, 0, 0);
  serve(area, uc, 0);
}

// What a new thread needs before it exists: its own frame to leave through.
static void prepare_thread(struct uks_thread_area* child, const struct uks_slot* slot,
                           const struct kernel_ucontext* uc) {
  child->index = slot->child_slot;
  child->token = slot->token;
  struct kernel_ucontext* frame = (struct kernel_ucontext*)((char*)child + kAreaFrame);
  *frame = *uc;
  alternate_stack_of(child, &frame->stack);
  frame->rax = 0;
  if (slot->enter_sp) frame->rsp = slot->enter_sp;
  const uint64_t size = fpstate_size(uc);
  if (size) {
    char* fpu = (char*)child + kAreaFpu;
    memcpy(fpu, (const void*)uc->fpstate, size);
    frame->fpstate = (uint64_t)fpu;
  }
  child->frame = (uint64_t)frame;
}

// The approved clone. Returns what to report in the parent; in a new process it returns only with the
// registers of the child set; a new thread starts in stub_thread_main.
static long clone_as_ordered(struct uks_thread_area* area, struct uks_slot* slot, struct kernel_ucontext* uc,
                             int* in_child) {
  uint64_t args[6];
  for (int i = 0; i < 6; i++) args[i] = slot->clone_args[i];
  area->token = slot->token;
  if (args[0] & CLONE_VM) {
    struct uks_thread_area* child = area_at(slot->child_slot % UKS_SLOTS);
    if (!uc || child == area) return -kEinval;
    prepare_thread(child, slot, uc);
    *(uint64_t*)args[1] = 0;  // the mark by which stub_syscall knows a new thread
  }
  const uint64_t child_sp = slot->enter_sp;
  const long result = stub_syscall(__NR_clone, args[0], args[1], args[2], args[3], args[4], args[5]);
  if (result == 0) {
    *in_child = 1;
    if (uc && child_sp) uc->rsp = child_sp;
  }
  return result;
}

static void resume(struct uks_slot* slot, struct kernel_ucontext* uc, long orders_result, uint64_t copied) {
  const uint32_t flags = slot->flags;
  if (flags & UKS_RESUME_RAX) {
    uc->rax = slot->ret;
    if (orders_result == -kEfault && !(flags & UKS_RESUME_MMAP)) {
      // Data for a buffer that ends too early: what fits counts. (It was there when the call began.)
      const int counts = (flags & UKS_RESUME_COUNT) && copied && copied < slot->ret;
      uc->rax = counts ? copied : (uint64_t)-kEfault;
    }
    uc->rcx = uc->rip;
    uc->r11 = uc->eflags;
  }
  if (flags & UKS_RESUME_MMAP) uc->rax = (uint64_t)orders_result;
  if (flags & UKS_RESUME_RESTART) uc->rip -= 2;
}

// Hands over to the sentry (event 0: its answer is already in the slot) and carries the answers out
// until one says how to go on. Returns when the guest is to be resumed with `uc`.
static void serve(struct uks_thread_area* area, struct kernel_ucontext* uc, uint32_t event) {
  for (;;) {
    struct uks_slot* slot = slot_at(area->index);
    long donated = 0;  // a descriptor that came with the answer, for this thread's orders
    if (event) {
      slot->event = event;
      donated = stub_syscall(__NR_getppid, UKS_HANDOFF_MAGIC, UKS_HANDOFF, area->index, 0, 0, 0);
      if (donated == -kEnosys) die();
      if (donated == UKS_LANDED) donated = slot->landing.number;
    }
    const uint32_t action = slot->action;
    uint32_t count = action == UKS_ACTION_COPY ? 0 : slot->order_count;
    if (count > UKS_MAX_ORDERS) count = UKS_MAX_ORDERS;
    long result = 0;
    uint64_t copied = 0;
    for (uint32_t i = 0; i < count; i++) {
      struct uks_order order = slot->orders[i];
      result = run_order(slot, &order, donated, &copied);
      if (result < 0 && result > -4096) break;
    }
    if (donated > 0) stub_syscall(__NR_close, (uint64_t)donated, 0, 0, 0, 0, 0);
    switch (action) {
      case UKS_ACTION_RESUME:
        if (!uc) die();
        resume(slot, uc, result, copied);
        if (slot->flags & UKS_RESUME_SIGNAL) {
          struct uks_signal signal = slot->signal;
          if (build_signal_frame(uc, &signal)) {
            slot->result = -kEfault;
            event = UKS_EVENT_DONE;
            continue;
          }
          if (slot->flags & UKS_RESUME_AGAIN) {
            slot->range_count = 0;
            slot->data_used = 0;
            event = UKS_EVENT_KICK;
            continue;
          }
        }
        return;
      case UKS_ACTION_ENTER:
        if (result < 0 && result > -4096) die();  // half an image must not run
        enter_image(area, slot->enter_ip, slot->enter_sp);
      case UKS_ACTION_EXIT:
        for (;;) stub_syscall(__NR_exit, 0, 0, 0, 0, 0, 0);
      case UKS_ACTION_EXIT_GROUP:
        die();
      case UKS_ACTION_CLONE: {
        int in_child = 0;
        result = clone_as_ordered(area, slot, uc, &in_child);
        if (in_child) {
          be_new_process(area, uc);
          return;
        }
        slot_at(area->index)->result = result;
        event = UKS_EVENT_CLONED;
        continue;
      }
      case UKS_ACTION_COPY:
        event = copy_in_turns(copy_at(area->index)) ? 0 : UKS_EVENT_COPIED;
        continue;
      case UKS_ACTION_AGAIN:
        slot->result = result;
        event = UKS_EVENT_DONE;
        continue;
      default:
        die();
    }
  }
}

// First C code of a new thread, on the stub stack of its own area.
__attribute__((used)) _Noreturn void stub_thread_main(struct uks_thread_area* area) {
  struct kernel_ucontext* frame = (struct kernel_ucontext*)area->frame;
  if (stub_syscall(__NR_getppid, UKS_HANDOFF_MAGIC, UKS_HELLO, area->token, 0, 0, 0) == -kEnosys) die();
  serve(area, frame, 0);
  stub_sigreturn(frame);
}

// Entered by the zygote, on the stub stack of area 0, when its filter is in place and its window
// mapped. It has no guest: it only makes new stub processes on order.
__attribute__((used)) _Noreturn void stub_zygote_entry(void) {
  struct uks_thread_area* area = this_area();
  const struct uks_zygote_start* start = (const struct uks_zygote_start*)((char*)area + UKS_ZYGOTE_KEEP);
  uint64_t at = 0x10000;  // mmap_min_addr or above
  for (uint64_t i = 0; i <= start->count && i <= 8; i++) {
    const uint64_t end = i < start->count ? start->keep[i].start : TASK_SIZE_MAX;
    if (end > at) stub_syscall(__NR_munmap, at, end - at, 0, 0, 0, 0);
    if (i < start->count) at = start->keep[i].end;
  }
  serve(area, 0, UKS_EVENT_IDLE);
  die();
}

static int serve_arch_prctl(const uint64_t* args, long* result) {
  uint64_t value;
  switch ((int)args[0]) {
    case kArchSetFs:
    case kArchSetGs:
      if (args[1] >= TASK_SIZE_MAX) {
        *result = -kEperm;
      } else {
        set_base((int)args[0], args[1]);
        *result = 0;
      }
      return 1;
    case kArchGetFs:
    case kArchGetGs:
      value = get_base((int)args[0]);
      *result = stub_copy((void*)args[1], &value, sizeof value) ? -kEfault : 0;
      return 1;
    default:
      return 0;
  }
}

static void on_sigreturn(struct uks_thread_area* area, struct uks_slot* slot, struct kernel_ucontext* uc) {
  struct kernel_stack stack;
  uint64_t mask = 0;
  slot->range_count = 0;
  slot->data_used = 0;
  if (read_signal_frame(uc, &stack, &mask)) {
    slot->result = -kEfault;
  } else {
    slot->result = 0;
    slot->args[0] = mask;
    slot->args[1] = stack.base;
    slot->args[2] = stack.size;
    slot->args[3] = (uint32_t)stack.flags;
  }
  serve(area, uc, UKS_EVENT_SIGRETURN);
}

// int 0x80 and its kin are what they are on a kernel without IA32 emulation: a general protection fault at
// the instruction (no user gate in the IDT, arch/x86/kernel/idt.c), which is SIGSEGV with SI_KERNEL.
static void refuse_ia32_entry(struct uks_thread_area* area, struct uks_slot* slot, struct kernel_ucontext* uc) {
  enum { kSigsegv = 11, kSiKernel = 0x80, kInt80 = 0x80cd };
  uint16_t instruction = 0;
  if (!stub_copy(&instruction, (const void*)(uc->rip - 2), 2) && instruction == kInt80) uc->rip -= 2;
  memset(slot->info, 0, sizeof slot->info);
  const int32_t info[3] = {kSigsegv, 0, kSiKernel};
  memcpy(slot->info, info, sizeof info);
  slot->ip = uc->rip;
  slot->sp = uc->rsp;
  slot->range_count = 0;
  slot->data_used = 0;
  serve(area, uc, UKS_EVENT_FAULT);
}

__attribute__((used)) void stub_on_syscall(int signo, const struct seccomp_siginfo* info,
                                           struct kernel_ucontext* uc) {
  (void)signo;
  struct uks_thread_area* area = this_area();
  struct uks_slot* slot = slot_at(area->index);
  if (info->code != kSysSeccomp) {
    serve(area, uc, UKS_EVENT_KICK);
    return;
  }
  const uint64_t nr = (uint32_t)info->syscall;
  if (info->arch != kAuditArchX8664) {
    refuse_ia32_entry(area, slot, uc);
    return;
  }
  if (nr & kX32Bit) {
    uc->rax = (uint64_t)-kEnosys;
    return;
  }
  const uint64_t args[6] = {uc->rdi, uc->rsi, uc->rdx, uc->r10, uc->r8, uc->r9};
  long result;
  if (serve_memory_call(nr, args, &result) || (nr == __NR_arch_prctl && serve_arch_prctl(args, &result))) {
    uc->rax = (uint64_t)result;
    uc->rcx = uc->rip;
    uc->r11 = uc->eflags;
    return;
  }
  if (nr == __NR_rt_sigreturn) {
    on_sigreturn(area, slot, uc);
    return;
  }
  slot->nr = nr;
  for (int i = 0; i < 6; i++) slot->args[i] = args[i];
  slot->ip = uc->rip;
  slot->sp = uc->rsp;
  prefetch_arguments(slot, nr, args);
  serve(area, uc, UKS_EVENT_SYSCALL);
}

__attribute__((used)) void stub_on_fault(int signo, const void* info, struct kernel_ucontext* uc) {
  (void)signo;
  if (uc->rip >= (uint64_t)stub_copy_begin && uc->rip < (uint64_t)stub_copy_end) {
    uc->rip = (uint64_t)stub_copy_fixup;
    return;
  }
  if (uc->rip == (uint64_t)stub_rest_insn) {
    uc->rip = (uint64_t)stub_rest_fixup;
    return;
  }
  struct uks_thread_area* area = this_area();
  struct uks_slot* slot = slot_at(area->index);
  memcpy(slot->info, info, sizeof slot->info);
  slot->ip = uc->rip;
  slot->sp = uc->rsp;
  slot->range_count = 0;
  slot->data_used = 0;
  serve(area, uc, UKS_EVENT_FAULT);
}

__attribute__((used)) void stub_on_kick(int signo, const void* info, struct kernel_ucontext* uc) {
  (void)signo;
  (void)info;
  struct uks_thread_area* area = this_area();
  struct uks_slot* slot = slot_at(area->index);
  slot->range_count = 0;
  slot->data_used = 0;
  serve(area, uc, UKS_EVENT_KICK);
}
