// Memory calls that the stub makes itself, and the sentry's orders on the address space.
#include <asm/mman.h>
#include <asm/unistd.h>
#include <linux/futex.h>
#include <linux/mman.h>

#include "platform/stub/stub.h"

enum { kPage = 4096 };
enum { kEnomem = 12, kEinval = 22, kEopnotsupp = 95 };
// Flags that pass to the host as they are. MAP_32BIT only steers the address.
enum {
  kMapFlags = MAP_TYPE | MAP_ANONYMOUS | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_STACK |
              MAP_GROWSDOWN | MAP_POPULATE | MAP_32BIT
};

#define ADVICE(a) (1u << (a))
enum {
  kAdvice = ADVICE(MADV_NORMAL) | ADVICE(MADV_RANDOM) | ADVICE(MADV_SEQUENTIAL) | ADVICE(MADV_WILLNEED) |
            ADVICE(MADV_DONTNEED) | ADVICE(MADV_FREE) | ADVICE(MADV_DONTFORK) | ADVICE(MADV_DOFORK) |
            ADVICE(MADV_HUGEPAGE) | ADVICE(MADV_NOHUGEPAGE) | ADVICE(MADV_DONTDUMP) | ADVICE(MADV_DODUMP) |
            ADVICE(MADV_WIPEONFORK) | ADVICE(MADV_KEEPONFORK) | ADVICE(MADV_COLD) | ADVICE(MADV_PAGEOUT) |
            ADVICE(MADV_POPULATE_READ) | ADVICE(MADV_POPULATE_WRITE)
};

static const uint64_t kMaxBrk = (uint64_t)1 << 40;  // as the sentry's SET_BRK has it

static uint64_t page_up(uint64_t n) { return (n + kPage - 1) & ~(uint64_t)(kPage - 1); }

// The guest may harm itself, but a stray range over the stub should be an error, not a crash.
static int touches_stub(uint64_t addr, uint64_t length) {
  const uint64_t base = region_base();
  return addr < base + UKS_STUB_REGION && addr + length > base;
}

static long set_brk(uint64_t wanted) {
  struct uks_stub_process* process = process_data();
  const uint64_t now = process->brk_now;
  if (wanted < process->brk_start || wanted - process->brk_start > process->brk_limit) return (long)now;
  const uint64_t old_end = page_up(now), new_end = page_up(wanted);
  if (new_end > old_end) {
    const long r = stub_syscall(__NR_mmap, old_end, new_end - old_end, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0);
    if (r < 0) return (long)now;
  } else if (new_end < old_end) {
    stub_syscall(__NR_munmap, new_end, old_end - new_end, 0, 0, 0, 0);
  }
  process->brk_now = wanted;
  return (long)wanted;
}

int serve_memory_call(uint64_t nr, const uint64_t* args, long* result) {
  switch (nr) {
    case __NR_brk:
      *result = set_brk(args[0]);
      return 1;
    case __NR_mmap: {
      const uint64_t flags = args[3];
      if ((flags & MAP_TYPE) != MAP_PRIVATE || !(flags & MAP_ANONYMOUS) || process_data()->limited) return 0;
      if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) && touches_stub(args[0], args[1])) {
        *result = -kEnomem;
        return 1;
      }
      if (flags & MAP_HUGETLB) {
        *result = -kEnomem;  // no huge pages are reserved here
        return 1;
      }
      *result = stub_syscall(__NR_mmap, args[0], args[1], args[2], flags & kMapFlags, (uint64_t)-1, 0);
      return 1;
    }
    case __NR_munmap:
      *result = touches_stub(args[0], args[1]) ? -kEinval : stub_syscall(nr, args[0], args[1], 0, 0, 0, 0);
      return 1;
    case __NR_mprotect:
      *result = touches_stub(args[0], args[1]) ? -kEnomem : stub_syscall(nr, args[0], args[1], args[2], 0, 0, 0);
      return 1;
    case __NR_mremap:
      *result = touches_stub(args[0], args[1]) ||
                        ((args[3] & MREMAP_FIXED) && touches_stub(args[4], args[2]))
                    ? -kEinval
                    : stub_syscall(nr, args[0], args[1], args[2], args[3], args[4], 0);
      return 1;
    case __NR_madvise:
      // Exactly the advice that the filter lets through; REMOVE, MERGEABLE, HWPOISON and their kind are
      // what a kernel without them says.
      if ((int)args[2] < 0 || (int)args[2] > 23 || !((kAdvice >> (int)args[2]) & 1)) {
        *result = -kEinval;
      } else {
        *result = touches_stub(args[0], args[1]) ? -kEnomem : stub_syscall(nr, args[0], args[1], args[2], 0, 0, 0);
      }
      return 1;
    case __NR_clock_gettime:
      // The host's kernel alone knows what a single thread has used.
      if ((int)args[0] != 3 /* CLOCK_THREAD_CPUTIME_ID */) return 0;
      *result = stub_syscall(nr, args[0], args[1], 0, 0, 0, 0);
      return 1;
    case __NR_sched_yield:
      *result = stub_syscall(nr, 0, 0, 0, 0, 0, 0);
      return 1;
    default:
      return 0;
  }
}

long run_order(struct uks_slot* slot, const struct uks_order* order, long donated, uint64_t* copied) {
  char* data = (char*)slot + UKS_SLOT_DATA + order->offset % UKS_SLOT_DATA_SIZE;
  switch (order->op) {
    case UKS_ORDER_COPY_OUT: {
      const uint64_t rest = stub_copy_rest((void*)order->addr, data, order->length);
      *copied += order->length - rest;
      return rest ? -14 : 0;
    }
    case UKS_ORDER_COPY_IN: {
      const uint64_t rest = stub_copy_rest(data, (const void*)order->addr, order->length);
      *copied += order->length - rest;
      return rest ? -14 : 0;
    }
    case UKS_ORDER_SCATTER:
      return stub_scatter((char*)order->addr, (const uint16_t*)data, order->length, order->flags) ? -14 : 0;
    case UKS_ORDER_ZERO:
      return stub_zero((void*)order->addr, order->length) ? -14 : 0;
    case UKS_ORDER_MMAP:
      return stub_syscall(__NR_mmap, order->addr, order->length, order->prot, order->flags,
                          order->flags & MAP_ANONYMOUS ? (uint64_t)-1 : (uint64_t)donated, order->offset);
    case UKS_ORDER_MUNMAP:
      return stub_syscall(__NR_munmap, order->addr, order->length, 0, 0, 0, 0);
    case UKS_ORDER_MPROTECT:
      return stub_syscall(__NR_mprotect, order->addr, order->length, order->prot, 0, 0, 0);
    case UKS_ORDER_SET_BRK:
      process_data()->brk_start = process_data()->brk_now = order->addr;
      process_data()->brk_limit = order->length;
      return 0;
    case UKS_ORDER_SET_LIMITED:
      process_data()->limited = order->addr;
      process_data()->brk_limit = order->addr ? order->length : kMaxBrk;
      return 0;
    case UKS_ORDER_CMPXCHG: {
      uint32_t old = 0;
      if (stub_cmpxchg32((uint32_t*)order->addr, order->prot, order->flags, &old)) return -14;
      return (long)old;
    }
    default:
      return -kEinval;
  }
}

static long copy_once(struct uks_copy* copy) {
  const struct uks_order order = copy->order;
  char* data = (char*)copy + UKS_COPY_DATA;
  const uint64_t length = order.length < UKS_COPY_DATA_SIZE ? order.length : UKS_COPY_DATA_SIZE;
  uint64_t rest;
  switch (order.op) {
    case UKS_ORDER_COPY_OUT:
      rest = stub_copy_rest((void*)order.addr, data, length);
      break;
    case UKS_ORDER_COPY_IN:
      rest = stub_copy_rest(data, (const void*)order.addr, length);
      break;
    default:
      return order.op == UKS_ORDER_CMPXCHG ? run_order(0, &order, 0, 0) : -kEinval;
  }
  return rest == length ? -14 : (long)(length - rest);
}

int copy_in_turns(struct uks_copy* copy) {
  for (uint32_t done = UKS_COPY_REPORT;;) {
    const uint32_t turn = __atomic_load_n(&copy->turn, __ATOMIC_ACQUIRE);
    if (turn == UKS_COPY_REPORT || turn == UKS_COPY_ANSWERED) return turn == UKS_COPY_ANSWERED;
    if (turn == done) {
      stub_syscall(__NR_futex, (uint64_t)&copy->turn, FUTEX_WAIT, turn, 0, 0, 0);
      continue;
    }
    copy->result = copy_once(copy);
    done = turn;
    __atomic_store_n(&copy->done, done, __ATOMIC_RELEASE);
    stub_syscall(__NR_futex, (uint64_t)&copy->done, FUTEX_WAKE, 1, 0, 0, 0);
  }
}
