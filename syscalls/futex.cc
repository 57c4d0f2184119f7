// futex(2) and the robust list calls.
#include <linux/futex.h>

#include "gen/syscalls.h"
#include "platform/platform.h"
#include "sentry/ipc/futex.h"
#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"
#include "sentry/usermem/memory_access.h"

namespace uks {
namespace {

struct FutexArgs {
  UserAddr uaddr;
  int op;
  uint32_t val;
  UserAddr timeout;
  UserAddr uaddr2;
  uint32_t val3;
  bool is_private() const { return op & FUTEX_PRIVATE_FLAG; }
};

// get_futex_key(): EINVAL, EFAULT. Before anything else in a call: for a word that may be shared
// the host's maps are read, which drops the kernel lock. Without the private flag Linux looks the
// page up, also for calls that do not read the word.
Result<FutexKey> key_of(Task& task, UserAddr addr, bool is_private) {
  constexpr uint64_t kUserEnd = (uint64_t{1} << 47) - 4096;
  if (addr.value % 4 != 0) return Err(EINVAL);
  if (addr.value >= kUserEnd) return Err(EFAULT);
  const Ref<AddressSpace> mm = task.mm;
  if (is_private) return FutexTable::key(*mm, addr, true);
  Result<FutexKey> key = Err(EFAULT);
  if (mm->has_shared_memory) {
    Unlocked unlocked;
    key = FutexTable::key(*mm, addr, false);
  } else {
    key = FutexTable::key(*mm, addr, false);
  }
  if (task.dead) return Err(EINTR);
  if (key && !key->shared) TRY(task.copy_in<uint32_t>(addr));
  return key;
}

Result<int64_t> wait(Task& task, const FutexArgs& a, uint32_t bitset, bool absolute) {
  if (bitset == 0) return Err(EINVAL);
  FutexTable& table = *task.kernel().futexes;
  CallState& call = task.call();
  if (!call.deadline && a.timeout) {
    const auto timeout = TRY(copy_in_timespec(task, a.timeout));
    call.deadline =
        absolute ? deadline_from_absolute(
                       a.op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, timeout)
                 : deadline_from_relative(timeout);
  }
  if (auto* waiter = static_cast<FutexWaiter*>(call.data.get())) {
    const bool woken = waiter->woken();
    if (woken || call.timed_out) {
      call.data.reset();
      if (woken) return 0;
      return Err(ETIMEDOUT);
    }
  } else {
    const auto key = TRY(key_of(task, a.uaddr, a.is_private()));
    auto fresh = std::make_unique<FutexWaiter>(table, task, bitset);
    // First into the queue, then look at the word: a wake between the two is not lost.
    table.enqueue(key, *fresh);
    const auto word = task.copy_in<uint32_t>(a.uaddr);
    if (!word || *word != a.val) {
      // A wake-up meant for a true waiter goes to the next.
      if (fresh->woken()) table.wake(key, 1, bitset);
      return Err(word ? Errno{EAGAIN} : word.error());
    }
    if (fresh->woken()) return 0;
    call.data = std::move(fresh);
  }
  const Errno e =
      task.block(std::vector<WaitOn>{}, call.deadline, call.deadline ? kRestartBlock : kRestartSys);
  if (!(e == kBlocked)) call.data.reset();
  return Err(e);
}

// FUTEX_OP of FUTEX_WAKE_OP: see futex(2). ENOSYS for what Linux does not know either.
Result<uint32_t> apply(uint32_t encoded, uint32_t old) {
  const uint32_t op = (encoded >> 28) & 7;
  int32_t arg = static_cast<int32_t>(encoded << 8) >> 20;
  if (encoded >> 31) arg = static_cast<int32_t>(1u << (arg & 31));  // FUTEX_OP_OPARG_SHIFT
  const auto v = static_cast<uint32_t>(arg);
  switch (op) {
    case FUTEX_OP_SET:
      return v;
    case FUTEX_OP_ADD:
      return old + v;
    case FUTEX_OP_OR:
      return old | v;
    case FUTEX_OP_ANDN:
      return old & ~v;
    case FUTEX_OP_XOR:
      return old ^ v;
    default:
      return Err(ENOSYS);
  }
}

Result<bool> compare(uint32_t encoded, uint32_t old) {
  const int32_t value = static_cast<int32_t>(old);
  const int32_t arg = static_cast<int32_t>(encoded << 20) >> 20;
  switch ((encoded >> 24) & 15) {
    case FUTEX_OP_CMP_EQ:
      return value == arg;
    case FUTEX_OP_CMP_NE:
      return value != arg;
    case FUTEX_OP_CMP_LT:
      return value < arg;
    case FUTEX_OP_CMP_GE:
      return value >= arg;
    case FUTEX_OP_CMP_LE:
      return value <= arg;
    case FUTEX_OP_CMP_GT:
      return value > arg;
    default:
      return Err(ENOSYS);
  }
}

Result<int64_t> wake_op(Task& task, const FutexArgs& a) {
  FutexTable& table = *task.kernel().futexes;
  const auto first = TRY(key_of(task, a.uaddr, a.is_private()));
  const auto second = TRY(key_of(task, a.uaddr2, a.is_private()));
  if (!table.claim(second))
    return Err(task.block({{&table.released, EPOLLIN}}, {}, kRestartNoIntr));
  const auto changed = with_memory(
      task,
      [&](MemoryAccess& memory) -> Result<uint32_t> {
        // The guest's other threads may change the word between the load and the exchange: try
        // again, as the kernel's cmpxchg loop does, but not for ever.
        uint32_t old;
        TRY(memory.read(a.uaddr2, &old, sizeof old));
        for (int tries = 0; tries < 64; tries++) {
          const uint32_t desired = TRY(apply(a.val3, old));
          const uint32_t seen = TRY(memory.cmpxchg32(a.uaddr2, old, desired));
          if (seen == old) return old;
          old = seen;
        }
        return Err(EAGAIN);
      },
      /*atomic=*/true);
  table.release(second);
  const bool also_second = TRY(compare(a.val3, TRY(changed)));
  int told = table.wake(first, static_cast<int>(a.val));
  if (also_second) told += table.wake(second, static_cast<int>(a.timeout.value));
  return told;
}

Result<int64_t> requeue(Task& task, const FutexArgs& a, bool compared) {
  const int wake_count = static_cast<int>(a.val);
  const int move_count = static_cast<int>(a.timeout.value);
  if (wake_count < 0 || move_count < 0) return Err(EINVAL);
  const auto from = TRY(key_of(task, a.uaddr, a.is_private()));
  const auto to = TRY(key_of(task, a.uaddr2, a.is_private()));
  if (compared && TRY(task.copy_in<uint32_t>(a.uaddr)) != a.val3) return Err(EAGAIN);
  int moved = 0;
  const int woken = task.kernel().futexes->requeue(from, to, wake_count, move_count, &moved);
  return woken + moved;
}

Result<int64_t> wake(Task& task, const FutexArgs& a, uint32_t bitset) {
  if (bitset == 0) return Err(EINVAL);
  const auto key = TRY(key_of(task, a.uaddr, a.is_private()));
  // Linux wakes one for counts below 1.
  return task.kernel().futexes->wake(key, std::max(1, static_cast<int>(a.val)), bitset);
}

}  // namespace

Result<int64_t> sys_futex(Task& task, UserAddr uaddr, int op, uint32_t val, UserAddr timeout,
                          UserAddr uaddr2, uint32_t val3) {
  const FutexArgs a{uaddr, op, val, timeout, uaddr2, val3};
  const int command = op & FUTEX_CMD_MASK;
  if ((op & FUTEX_CLOCK_REALTIME) && command != FUTEX_WAIT_BITSET &&
      command != FUTEX_WAIT_REQUEUE_PI && command != FUTEX_LOCK_PI2) {
    return Err(ENOSYS);
  }
  switch (command) {
    case FUTEX_WAIT:
      return wait(task, a, FutexTable::kAnyBit, false);
    case FUTEX_WAIT_BITSET:
      return wait(task, a, val3, true);
    case FUTEX_WAKE:
      return wake(task, a, FutexTable::kAnyBit);
    case FUTEX_WAKE_BITSET:
      return wake(task, a, val3);
    case FUTEX_REQUEUE:
      return requeue(task, a, false);
    case FUTEX_CMP_REQUEUE:
      return requeue(task, a, true);
    case FUTEX_WAKE_OP:
      return wake_op(task, a);
    default:
      return Err(ENOSYS);  // the PI family
  }
}

Result<int64_t> sys_set_robust_list(Task& task, UserAddr head, uint64_t len) {
  if (len != 24) return Err(EINVAL);
  task.robust_list = head;
  return 0;
}

Result<int64_t> sys_get_robust_list(Task& task, int pid, UserAddr head_ptr, UserAddr len_ptr) {
  Task* target = pid == 0 ? &task : task.kernel().find_task(pid);
  if (!target) return Err(ESRCH);
  if (target->tgid() != task.tgid() && target->creds().ruid != task.creds().euid) return Err(EPERM);
  const uint64_t head = target->robust_list.value;  // the writes may outlast the target
  TRY(task.copy_out(len_ptr, uint64_t{24}));
  TRY(task.copy_out(head_ptr, head));
  return 0;
}

}  // namespace uks
