// Guest memory by copy orders: the second way, for hosts that refuse /proc/PID/mem.
//
// The sentry needs the memory in the middle of a handler. So the stub of a thread that waits in the
// sentry, if possible the one whose call it is, is sent to copy in turns, by words and bytes of its
// copy area that nothing else uses, until its answer is there. Whoever has a turn carried out waits
// for it without the kernel lock; what that thread is answered meanwhile waits for it (`held_`).
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "platform/base/log.h"
#include "platform/channel/shared_cell.h"
#include "platform/trap/trap_platform.h"

namespace uks {
namespace {

// A turn takes microseconds; longer if the page is of a slow file or the machine busy. After this,
// who copies for others loses its process; who copies for itself, when all threads that could serve
// others are kept for kAlonePatience.
constexpr int64_t kTurnPatience = 1'000'000'000;    // ns
constexpr int64_t kComeInPatience = 1'000'000'000;  // ns for a kicked thread
constexpr int64_t kAlonePatience = 100'000'000;     // ns without a thread that could serve others
constexpr int64_t kLook = 10'000'000;               // ns between looks whether to go on waiting
constexpr int kSpins = 200;                         // some microseconds
// Somebody plays with the word that is waited on.
constexpr int kManyLooks = 16;
constexpr long kPause = 1'000'000;  // ns

int64_t monotonic_ns() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

void futex_wait(const uint32_t& word, uint32_t value, int64_t ns) {
  const timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
  (void)syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}
void futex_wake(const uint32_t& word) {
  (void)syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

bool can_copy(const GuestThread& thread) {
  return thread.in_sentry && !thread.gone && !thread.awaits_window && !thread.disobeyed;
}

}  // namespace

// Who waits for a thread to copy with.
struct TrapPlatform::CopyWaiter {
  const AddressSpace* mm;
  Ref<GuestThread> given;
  std::mutex mutex;
  std::condition_variable changed;
  bool told = false;

  void tell() {
    const std::lock_guard lock(mutex);
    told = true;
    changed.notify_one();
  }
};

GuestThread* TrapPlatform::find_to_copy(AddressSpace& mm, GuestThread* own) {
  if (own && can_copy(*own) && !own->taken) return own;
  for (const auto& thread : mm.threads) {
    if (can_copy(*thread) && !thread->taken) return thread.get();
  }
  return nullptr;
}

Ref<GuestThread> TrapPlatform::take_to_copy(AddressSpace& mm, GuestThread* own) {
  if (own && &own->mm() != &mm) own = nullptr;
  if (mm.gone || (mm.frozen && !own)) return nullptr;
  if (GuestThread* found = find_to_copy(mm, own)) {
    found->taken = true;
    found->for_itself = found == own;
    return Ref<GuestThread>(found);
  }
  CopyWaiter waiter{&mm, {}, {}, {}, false};
  copy_waiters_.push_back(&waiter);
  let_another_receive();
  const int64_t start = monotonic_ns();
  int64_t alone_since = start;
  for (bool first = true; !mm.gone && !waiter.given; first = false) {
    const int64_t now = monotonic_ns();
    if (!nobody_is_left()) alone_since = now;
    if (now - start > kComeInPatience || now - alone_since > kAlonePatience) break;
    // All threads are in guest code, or taken. One that comes in is enough.
    for (const auto& thread : mm.threads) {
      if (thread->in_sentry || thread->taken || thread->host_tid == 0) continue;
      kick(*thread);
      if (first) break;
    }
    unlock_to_block();
    {
      std::unique_lock lock(waiter.mutex);
      waiter.changed.wait_for(lock, std::chrono::nanoseconds(kLook), [&] { return waiter.told; });
    }
    lock_again();
  }
  std::erase(copy_waiters_, &waiter);
  if (waiter.given) waiter.given->for_itself = waiter.given.get() == own;
  return std::move(waiter.given);
}

bool TrapPlatform::offer_to_copy(GuestThread& thread) {
  if (!can_copy(thread)) return false;
  for (CopyWaiter* waiter : copy_waiters_) {
    if (waiter->mm != &thread.mm() || waiter->given) continue;
    thread.taken = true;
    waiter->given = Ref<GuestThread>(&thread);
    waiter->tell();
    return true;
  }
  return false;
}

void TrapPlatform::memory_is_gone(const AddressSpace& mm) {
  for (CopyWaiter* waiter : copy_waiters_) {
    if (waiter->mm == &mm) waiter->tell();
  }
}

bool TrapPlatform::nobody_is_left() {
  Shard* const shard = current_worker_.shard;
  if (!shard) return true;
  const std::lock_guard role(shard->role_mutex);
  if (shard->workers < kWorkers && shard->refused_at == 0) return false;
  return std::all_of(shard->busy.begin(), shard->busy.begin() + shard->workers,
                     [](bool busy) { return busy; });
}

// False: the process is dead, or does not obey.
bool TrapPlatform::wait_for_turn(const GuestThread& thread) {
  const uks_copy* copy = thread.copy();
  for (int i = 0; i < kSpins; i++) {
    if (load_once(copy->done) == thread.copy_turn) return true;
    __builtin_ia32_pause();
  }
  const int64_t start = monotonic_ns();
  int64_t alone_since = start;
  for (int looks = 0;; looks++) {
    const uint32_t done = load_once(copy->done);
    if (done == thread.copy_turn) return true;
    if (thread.dead) return false;
    const int64_t now = monotonic_ns();
    // All are busy for moments on a busy machine. Only those moments count for that: were the turn
    // itself to begin again after each, silent processes would go one by one, a second each.
    if (!nobody_is_left()) alone_since = now;
    const bool needed = !thread.for_itself || now - alone_since > kAlonePatience;
    if (needed && now - start > kTurnPatience) return false;
    futex_wait(copy->done, done, kLook);
    if (looks < kManyLooks) continue;
    const timespec pause{0, kPause};
    nanosleep(&pause, nullptr);
  }
}

Result<int64_t> TrapPlatform::order_memory(GuestThread& thread, const uks_order& order,
                                           void* bytes) {
  if (thread.dead || thread.disobeyed) return Err(EIO);
  uks_copy* copy = thread.copy();
  copy->order = order;
  if (order.op == UKS_ORDER_COPY_OUT) memcpy(thread.copy_data(), bytes, order.length);
  thread.copy_turn = std::max<uint32_t>(thread.copy_turn + 1, UKS_COPY_FIRST);
  if (thread.copying == Copying::kNo) {
    store(copy->done, UKS_COPY_REPORT);
    store(copy->turn, thread.copy_turn);
    store(thread.slot()->action, UKS_ACTION_COPY);
    thread.copying = Copying::kInTurns;
    if (const auto sent = notifier_of(thread).reply(thread.notification, 0); !sent) return Err(EIO);
  } else {
    store(copy->turn, thread.copy_turn);
    futex_wake(copy->turn);
  }
  if (!wait_for_turn(thread)) {
    thread.disobeyed = true;
    return Err(EIO);
  }
  const auto result = static_cast<int64_t>(load_once(copy->result));
  if (order.op == UKS_ORDER_COPY_IN && result > 0 &&
      static_cast<uint64_t>(result) <= order.length) {
    load_bytes(bytes, thread.copy_data(), static_cast<size_t>(result));
  }
  if (result < 0) return Err(EFAULT);
  return result;
}

void TrapPlatform::give_back(GuestThread& thread) {
  thread.taken = false;
  if (thread.gone) return;
  if (thread.disobeyed) {
    LOG_DEBUG("host thread {} does not copy{}; its process is ended", thread.host_tid,
              thread.for_itself ? "" : " for others");
    keeper_.send(keeper::Op::kKill, thread.mm().host_pid);
    return;
  }
  if (offer_to_copy(thread)) return;
  const auto it = held_.find(&thread);
  if (it == held_.end()) return;
  Outgoing out = std::move(it->second);
  held_.erase(it);
  send_answer(thread, std::move(out));
  if (thread.leaving) forget(&thread);
}

void TrapPlatform::send_answer(GuestThread& thread, Outgoing out) {
  store(thread.slot()->action, out.action);
  if (thread.copying == Copying::kNo) {
    outgoing_.push_back(std::move(out));
    return;
  }
  // A descriptor comes only with the answer to a hand-off.
  const bool report = out.fd >= 0;
  thread.copying = report ? Copying::kReporting : Copying::kNo;
  Outgoing word{};
  word.notifier = out.notifier;
  word.fd = -1;
  word.mm = Ref<AddressSpace>(&thread.mm());
  word.copy = thread.copy();
  word.turn = report ? UKS_COPY_REPORT : UKS_COPY_ANSWERED;
  outgoing_.push_back(std::move(word));
  if (report) held_.insert_or_assign(&thread, std::move(out));
}

void TrapPlatform::say_turn(uks_copy& copy, uint32_t turn) {
  store(copy.turn, turn);
  futex_wake(copy.turn);
}

void TrapPlatform::turns_ended(GuestThread& thread, const Notification& n) {
  if (load_once(thread.slot()->event) != UKS_EVENT_COPIED)
    return end_liar(thread, "it did not say that it has copied");
  thread.copying = Copying::kNo;
  const auto it = held_.find(&thread);
  if (it == held_.end()) return;
  Outgoing out = std::move(it->second);
  held_.erase(it);
  out.id = n.id;
  outgoing_.push_back(std::move(out));
}

}  // namespace uks
