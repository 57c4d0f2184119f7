// Guest memory by copy orders: the second way, for hosts that refuse /proc/PID/mem.
//
// The sentry needs the memory in the middle of a handler, under the kernel lock, and the answer
// cannot come as a notification: whoever receives those waits for that lock. So the stub of a
// thread that waits in the sentry is sent to copy in turns, which it does until the handler has
// answered or given up its lock, and says so in its slot. A turn takes microseconds; a stub that
// does not obey within kTurnPatience loses its process.
#include <sched.h>
#include <sys/wait.h>
#include <time.h>

#include <cstring>

#include "platform/base/log.h"
#include "platform/channel/shared_cell.h"
#include "platform/trap/trap_platform.h"

namespace uks {
namespace {

constexpr int64_t kTurnPatience = 1'000'000'000;  // ns
constexpr int64_t kSpin = 50'000;                 // ns of looking before the first pause
constexpr long kPause = 50'000;                   // ns
constexpr uint64_t kPlace = UKS_SLOT_DATA_SIZE - MemoryByOrder::kMaxCopy;  // in the data area

int64_t monotonic_ns() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

bool is_dead(pid_t pid) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
    return false;
  // A tracee's stop is reported as well, whatever the options say.
  return info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
}

// False: the process is dead, or does not obey.
bool wait_for_turn(const GuestThread& thread) {
  const int64_t start = monotonic_ns();
  for (unsigned looks = 1;; looks++) {
    if (load_once(thread.slot()->copy_done) == thread.copy_turn) return true;
    if (looks % 16 != 0) continue;
    const int64_t waited = monotonic_ns() - start;
    if (waited > kTurnPatience) return false;
    if (waited < kSpin) {
      sched_yield();
      continue;
    }
    if (is_dead(thread.mm().host_pid)) return false;
    const timespec pause{0, kPause};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

thread_local std::vector<Ref<GuestThread>> TrapPlatform::in_turns_;

GuestThread* TrapPlatform::thread_to_copy(AddressSpace& mm) {
  GuestThread* found = nullptr;
  for (const auto& thread : mm.threads) {
    if (!thread->in_sentry || thread->gone || thread->copying == Copying::kEnding ||
        thread->awaits_window)
      continue;
    if (thread->copying == Copying::kInTurns) return thread.get();
    if (!found) found = thread.get();
  }
  return found;
}

Result<int64_t> TrapPlatform::order_memory(AddressSpace& mm, const uks_order& order, void* bytes) {
  GuestThread* thread = mm.gone ? nullptr : thread_to_copy(mm);
  if (!thread) return Err(EIO);
  uks_slot* slot = thread->slot();
  char* place = thread->data() + kPlace;
  // What the handler has put there, or has yet to look at, is put back.
  uks_order order_before;
  load_bytes(&order_before, &slot->orders[0], sizeof order_before);
  std::vector<char> before;
  const bool moves = order.op == UKS_ORDER_COPY_IN || order.op == UKS_ORDER_COPY_OUT;
  if (moves && thread->uses_last(kMaxCopy)) {
    before.resize(order.length);
    load_bytes(before.data(), place, order.length);
  }
  uks_order out = order;
  out.offset = kPlace;
  slot->orders[0] = out;
  if (order.op == UKS_ORDER_COPY_OUT) memcpy(place, bytes, order.length);
  if (thread->copying == Copying::kNo) {
    thread->copying = Copying::kInTurns;
    thread->copy_turn = 1;
    store(slot->copy_done, 0);
    store(slot->copy_turn, 1);
    store(slot->action, UKS_ACTION_COPY);
    in_turns_.emplace_back(thread);
    if (const auto sent = notifier_of(*thread).reply(thread->notification, 0); !sent)
      return Err(EIO);
  } else {
    thread->copy_turn = thread->copy_turn == UINT32_MAX ? 1 : thread->copy_turn + 1;
    store(slot->copy_turn, thread->copy_turn);
  }
  if (!wait_for_turn(*thread)) {
    LOG_DEBUG("host thread {} does not copy", thread->host_tid);
    end_process(mm);
    return Err(EIO);
  }
  const auto result = static_cast<int64_t>(load_once(slot->copy_result));
  if (order.op == UKS_ORDER_COPY_IN && result > 0 &&
      static_cast<uint64_t>(result) <= order.length) {
    load_bytes(bytes, place, static_cast<size_t>(result));
  }
  slot->orders[0] = order_before;
  if (!before.empty()) memcpy(place, before.data(), before.size());
  if (result < 0) return Err(EFAULT);
  return result;
}

void TrapPlatform::end_turns(GuestThread& thread) {
  thread.copying = Copying::kEnding;
  store(thread.slot()->copy_turn, 0);
}

void TrapPlatform::end_own_turns() {
  for (const auto& thread : in_turns_) {
    if (thread->copying == Copying::kInTurns) end_turns(*thread);
  }
  in_turns_.clear();
}

void TrapPlatform::turns_ended(GuestThread& thread, const Notification& n) {
  if (load_once(thread.slot()->event) != UKS_EVENT_COPIED)
    return end_liar(thread, "it did not say that it has copied");
  thread.copying = Copying::kNo;
  thread.notification = n.id;
  if (const auto it = held_.find(&thread); it != held_.end()) {
    Outgoing out = std::move(it->second);
    held_.erase(it);
    out.id = n.id;
    outgoing_.push_back(std::move(out));
    if (thread.leaving) forget(&thread);
    return;
  }
  if (thread.task && std::exchange(thread.wanted, false)) client_->on_turns_ended(thread);
}

}  // namespace uks
