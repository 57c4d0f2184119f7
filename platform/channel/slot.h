// The layout of what a stub and the sentry share: one window per stub process, one slot per thread.
//
// Plain C, used by the freestanding stub and by the sentry. Slots are HOSTILE memory for the
// sentry: it reads them only through SharedCell<T>::load() (shared_cell.h), each field once, and
// validates the private copy.
#pragma once
#include <stdint.h>

#define UKS_SLOT_SIZE 0x10000u  // bytes; header page and data area
#define UKS_SLOT_DATA 0x1000u   // offset of the data area in a slot
#define UKS_SLOT_DATA_SIZE (UKS_SLOT_SIZE - UKS_SLOT_DATA)
#define UKS_SLOTS 1024u  // per stub process: its most threads
// Behind the slots, one for each: what UKS_ACTION_COPY uses, and nothing else does.
#define UKS_COPY_SIZE 0x10000u
#define UKS_COPY_DATA 0x80u  // offset of the bytes; a small copy takes one page
#define UKS_COPY_DATA_SIZE (UKS_COPY_SIZE - UKS_COPY_DATA)
#define UKS_WINDOW_COPIES (UKS_SLOTS * UKS_SLOT_SIZE)  // offset in the window
#define UKS_WINDOW_SIZE (UKS_WINDOW_COPIES + UKS_SLOTS * UKS_COPY_SIZE)

// The stub's region in every guest address space, from its 64 KiB aligned base on.
#define UKS_STUB_TEXT_SIZE 0x8000u                          // text and constants, read-execute
#define UKS_STUB_PROCESS 0x10000u                           // struct uks_stub_process, private
#define UKS_STUB_WINDOW 0x100000u                           // the window, shared with the sentry
#define UKS_STUB_AREAS (UKS_STUB_WINDOW + UKS_WINDOW_SIZE)  // one private area per slot
#define UKS_AREA_SIZE 0x10000u  // thread data, stub stack, alternate signal stack
#define UKS_AREA_STACK_TOP \
  0x8000u  // the stub's own stack grows down from here; above: signal stack
#define UKS_STUB_REGION (UKS_STUB_AREAS + UKS_SLOTS * UKS_AREA_SIZE)

// What the sentry hands over, atomically with a reply, has this number plus the index of the thread
// that it is for, until that thread has mapped it. With a tracer it is the lowest free number above
// 0.
#define UKS_FIRST_FD 5
// The hand-off: getppid with these registers. Outer filters allow getppid (PITFALLS 8).
#define UKS_HANDOFF_MAGIC 0x736b7521746f6e66ull
enum {
  UKS_HANDOFF = 1,  // arg 2: slot index; the slot says the rest
  UKS_HELLO = 2,    // arg 2: the token of a clone order: a new stub process or thread
};

enum uks_event {
  UKS_EVENT_SYSCALL = 1,
  UKS_EVENT_FAULT = 2,  // info: the host's siginfo
  UKS_EVENT_KICK = 3,
  UKS_EVENT_DONE = 4,       // the orders of a reply with UKS_ACTION_AGAIN are done; result
  UKS_EVENT_CLONED = 5,     // result: what the host's clone returned in the parent
  UKS_EVENT_SIGRETURN = 6,  // args: mask, alternate stack base, size, flags
  UKS_EVENT_IDLE = 7,       // the zygote waits for an order
  UKS_EVENT_COPIED = 8,     // the end of UKS_ACTION_COPY by UKS_COPY_REPORT
};

enum uks_order_op {
  UKS_ORDER_COPY_OUT = 1,  // slot data at `offset` -> guest `addr`, `length` bytes
  UKS_ORDER_COPY_IN = 2,   // guest `addr` -> slot data at `offset`
  UKS_ORDER_ZERO = 3,      // zero `length` bytes at `addr`
  UKS_ORDER_MMAP =
      4,  // prot, flags; the fixed descriptor unless MAP_ANONYMOUS; file offset `offset`
  UKS_ORDER_MUNMAP = 5,
  UKS_ORDER_MPROTECT = 6,
  UKS_ORDER_SET_BRK = 7,      // program break starts at `addr`
  UKS_ORDER_SET_LIMITED = 9,  // from now on (`addr` 1) the sentry is asked about every mmap; brk
                              // may grow by `length` bytes at most
  UKS_ORDER_CMPXCHG =
      8,  // 32 bits at `addr`: if equal to `prot` becomes `flags`; old value -> result
  UKS_ORDER_SCATTER = 10,  // `length` 16-bit words of slot data at `offset` -> `addr`, `addr` +
                           // `flags`, `addr` + 2 * `flags` …
};

struct uks_order {
  uint32_t op;
  uint32_t prot;
  uint32_t flags;
  uint32_t pad;
  uint64_t addr;
  uint64_t length;
  uint64_t offset;
};
#define UKS_MAX_ORDERS 48u

enum uks_action {
  UKS_ACTION_RESUME = 1,      // back to the guest; see flags
  UKS_ACTION_ENTER = 2,       // first instruction of a new image: ip, sp
  UKS_ACTION_EXIT = 3,        // this host thread ends
  UKS_ACTION_EXIT_GROUP = 4,  // this host process ends
  UKS_ACTION_CLONE = 5,       // clone with clone_args, then UKS_EVENT_CLONED
  UKS_ACTION_AGAIN = 6,       // then UKS_EVENT_DONE
  UKS_ACTION_COPY = 7,        // see struct uks_copy
};
enum {
  UKS_RESUME_RAX = 1,      // rax = ret
  UKS_RESUME_RESTART = 2,  // back onto the syscall instruction (with rax = ret)
  UKS_RESUME_SIGNAL = 4,   // then build a frame for `signal`
  UKS_RESUME_MMAP = 8,     // rax = the result of the last order
  UKS_RESUME_AGAIN = 16,   // then come in again (UKS_EVENT_KICK): more signals wait
  UKS_RESUME_COUNT = 32,  // `ret` counts bytes that the orders copy out: what arrived is the answer
};

// A piece of guest memory that the stub copied into the slot before the hand-off.
struct uks_range {
  uint64_t addr;
  uint32_t length;  // bytes present
  uint32_t offset;  // in the slot's data area
  uint32_t kind;    // enum uks_range_kind
  uint32_t count;   // UKS_RANGE_STRVEC: number of strings
};
enum uks_range_kind {
  UKS_RANGE_BYTES = 1,
  UKS_RANGE_STRING = 2,
  UKS_RANGE_STRVEC = 3,
  UKS_RANGE_CUT = 4,  // bytes, and behind them memory that cannot be read
};
#define UKS_MAX_RANGES 4u

// How to deliver a signal.
struct uks_signal {
  uint64_t handler;
  uint64_t restorer;
  uint64_t old_mask;  // saved in the frame
  uint64_t alt_base;  // for uc_stack
  uint64_t alt_size;
  uint32_t alt_flags;
  uint32_t use_alt;  // build the frame on the alternate stack, unless already on it
  uint32_t signo;
  uint32_t pad;
  unsigned char info[128];  // siginfo_t
};

// What recvmsg(2) needs to receive one descriptor: its msghdr, iovec and control message, as the
// kernel has them.
struct uks_landing {
  uint64_t name, name_length;
  uint64_t parts, part_count;
  uint64_t control, control_length;
  uint64_t flags;
  uint64_t part_base, part_length;
  uint64_t message_length;  // struct cmsghdr
  int32_t level, type;
  int32_t number;
  int32_t pad;
  char bytes[8];
};
// What the hand-off returns if the number of the descriptor that came is the one in the slot's
// landing.
#define UKS_LANDED 0x7fff0001

struct uks_slot {
  // Written by the stub.
  uint32_t event;
  uint32_t range_count;
  uint64_t nr;
  uint64_t args[6];
  uint64_t ip;
  uint64_t sp;
  int64_t result;
  uint64_t data_used;  // bytes of the data area that ranges occupy
  struct uks_range ranges[UKS_MAX_RANGES];
  // Where the call's data will go (a buffer, or a vector's buffers as one): so many bytes from its
  // start on could be written a moment ago. `probe_fault`: the next one could not, else it was not
  // tried.
  uint64_t probed;
  uint32_t probe_fault;
  uint32_t pad;
  unsigned char info[128];
  // Written by the sentry.
  uint32_t action;
  uint32_t flags;
  uint64_t ret;
  uint64_t enter_ip;
  uint64_t enter_sp;
  uint64_t clone_args[6];  // registers of the approved clone
  uint64_t token;          // for the child's hello
  uint32_t child_slot;     // thread: the slot and area of the new thread
  uint32_t order_count;
  struct uks_signal signal;
  struct uks_order orders[UKS_MAX_ORDERS];
  // The kernel clears it when the host thread is gone (CLONE_CHILD_CLEARTID).
  uint32_t alive;
  // With a tracer: where recvmsg(2) puts a descriptor that comes with an answer, and finds how to.
  struct uks_landing landing;
};

// UKS_ACTION_COPY: the stub copies in turns while the call that it waits for goes on. Both sides
// sleep on the words as futexes.
struct uks_copy {
  uint32_t turn;  // the sentry's: enum uks_copy_turn, or the number of the turn that `order` is for
  uint32_t done;  // the stub's: the turn that it has done last
  int64_t result;          // ... what that gave: bytes copied, a word's old value, or -EFAULT
  struct uks_order order;  // COPY_OUT, COPY_IN: from or to this area's bytes; CMPXCHG
};
enum uks_copy_turn {
  UKS_COPY_REPORT = 0,    // come in with UKS_EVENT_COPIED for the answer
  UKS_COPY_ANSWERED = 1,  // the answer is in the slot
  UKS_COPY_FIRST = 2,
};

// First bytes of the stub's text: where its parts lie, as offsets from the region's base.
struct uks_stub_header {
  uint64_t magic;
  uint32_t zygote_entry;
  uint32_t syscall_trap;  // SIGSYS handler
  uint32_t fault_trap;    // SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP handler
  uint32_t kick_trap;     // SIGURG handler
  uint32_t restorer;
  uint32_t syscall_ip;  // address behind the one syscall instruction
  uint32_t text_end;
  uint32_t pad;
};
#define UKS_STUB_MAGIC 0x62757473736b75ull

// Per process, private to the guest (it can only fool itself with it).
struct uks_stub_process {
  uint64_t brk_start;
  uint64_t brk_now;
  uint64_t region_end;
  uint64_t brk_limit;  // RLIMIT_DATA-like bound in bytes
  uint64_t limited;    // RLIMIT_AS or RLIMIT_DATA is set: the sentry checks it
};

// At the bottom of every area.
struct uks_thread_area {
  uint64_t index;
  uint64_t token;
  uint64_t frame;  // a new thread's first frame: address of its ucontext
  uint64_t in_stub;
};

// What the zygote keeps of the sentry's address space when it starts: all else is unmapped. At
// UKS_ZYGOTE_KEEP in area 0; sorted, not overlapping.
struct uks_keep_range {
  uint64_t start, end;
};
struct uks_zygote_start {
  uint64_t count;
  struct uks_keep_range keep[8];
};
#define UKS_ZYGOTE_KEEP 0x400u

#ifdef __cplusplus
static_assert(sizeof(uks_slot) <= UKS_SLOT_DATA, "the header fits its page");
static_assert(sizeof(uks_copy) <= UKS_COPY_DATA);
#else
_Static_assert(sizeof(struct uks_slot) <= UKS_SLOT_DATA, "the header fits its page");
#endif
