#include "platform/trap/stub_filter.h"

#include <asm/prctl.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <csignal>
#include <ctime>

#include "platform/channel/slot.h"
#include "platform/host/features.h"

namespace uks {

using bpf::allow;
using bpf::arg;
using bpf::arg32;
using bpf::notify;
using bpf::trace;
using bpf::trap;
using bpf::when;

bpf::Program stub_filter(uint64_t syscall_ip, HandOff way) {
  const auto from_stub = [&] { return bpf::instruction_pointer().equals(syscall_ip); };
  bpf::Policy policy(trap(), trap());
  const auto on = [&](long number, const bpf::Cond& cond, const bpf::Rule& rule) {
    policy.on(number, when(from_stub() && cond, rule).otherwise(trap()));
  };
  const auto always = bpf::Cond::constant(true);

  // Memory calls: a guest's own memory, or bytes of donated descriptors that it may read anyway.
  constexpr uint64_t kMapFlags = MAP_SHARED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
                                 MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_STACK | MAP_GROWSDOWN |
                                 MAP_POPULATE | MAP_32BIT;
  on(SYS_mmap, arg(3).only(kMapFlags), allow());
  on(SYS_munmap, always, allow());
  on(SYS_mprotect, always, allow());
  on(SYS_mremap, always, allow());
  on(SYS_madvise,
     arg32(2).in({MADV_DONTNEED, MADV_FREE, MADV_WILLNEED, MADV_NORMAL, MADV_RANDOM,
                  MADV_SEQUENTIAL, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTFORK, MADV_DOFORK,
                  MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_DONTDUMP, MADV_DODUMP, MADV_COLD,
                  MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE}),
     allow());
  // Its own life.
  on(SYS_rt_sigreturn, always, allow());
  on(SYS_sched_yield, always, allow());
  // Copying in turns: only on the words that are the sentry's and its own, and without a pointer.
  const uint64_t copies = (syscall_ip & ~uint64_t{0xffff}) + UKS_STUB_WINDOW + UKS_WINDOW_COPIES;
  on(SYS_futex,
     arg(0).within(copies, copies + uint64_t{UKS_SLOTS} * UKS_COPY_SIZE) &&
         arg32(1).in({FUTEX_WAIT, FUTEX_WAKE}) && arg(3).equals(0),
     allow());
  // Of the calling thread alone, which is what nobody else may ask.
  on(SYS_clock_gettime, arg32(0).equals(CLOCK_THREAD_CPUTIME_ID), allow());
  on(SYS_exit, always, allow());
  on(SYS_exit_group, always, allow());
  on(SYS_prctl, arg32(0).equals(PR_SET_PDEATHSIG) && arg(1).equals(SIGKILL), allow());
  // Its thread's FS and GS bases, where there are no instructions for that (no FSGSBASE).
  if (!has_fsgsbase())
    on(SYS_arch_prctl, arg32(0).in({ARCH_SET_GS, ARCH_SET_FS, ARCH_GET_FS, ARCH_GET_GS}), allow());
  // Removes a donated descriptor, never adds one.
  on(SYS_close, arg32(0).within(1, UKS_FIRST_FD + UKS_SLOTS), allow());
  // Approved one by one: the hand-off (the only way to receive a descriptor) and clone.
  const bpf::Rule ask = way == HandOff::kTracer ? trace() : notify();
  on(SYS_getppid, arg(0).equals(UKS_HANDOFF_MAGIC), ask);
  on(SYS_clone, always, ask);
  // The tracer turns a hand-off into this call to make a descriptor arrive; it approves no other.
  if (way == HandOff::kTracer) on(SYS_recvmsg, always, trace());
  return policy.compile();
}

}  // namespace uks
