// Pending signals of one task or process.
#include "sentry/signal/signal_state.h"

#include <unordered_map>

namespace uks {
namespace {

// Beside RLIMIT_SIGPENDING, which root may raise: what one user, and all of them, can make the
// sandbox hold.
constexpr size_t kMaxQueuedOfUser = 65536;
constexpr size_t kMaxQueuedInAll = 262144;
size_t queued_in_all = 0;  // with the next under the kernel lock
constexpr SignalMask kSynchronous = signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGILL) |
                                    signal_bit(SIGTRAP) | signal_bit(SIGFPE) | signal_bit(SIGSYS);

std::unordered_map<uid_t, size_t>& queued_of() {
  static auto* const counts = new std::unordered_map<uid_t, size_t>;
  return *counts;
}

void force_charge(uid_t user) {
  queued_of()[user]++;
  queued_in_all++;
}

}  // namespace

bool charge_signal(SignalCharge charge) {
  const auto it = queued_of().find(charge.user);
  const size_t mine = it == queued_of().end() ? 0 : it->second;
  if (mine >= charge.limit || mine >= kMaxQueuedOfUser || queued_in_all >= kMaxQueuedInAll)
    return false;
  force_charge(charge.user);
  return true;
}

void uncharge_signal(uid_t user) {
  const auto it = queued_of().find(user);
  if (it == queued_of().end()) return;
  queued_in_all--;
  if (--it->second == 0) queued_of().erase(it);
}

void SignalQueue::uncharge(const Entry& entry) {
  if (!entry.of_timer) uncharge_signal(entry.user);
}

bool SignalQueue::push(const SignalInfo& info, SignalCharge charge) {
  const SignalMask bit = signal_bit(info.signo);
  const bool standard = info.signo < 32;
  if (standard && (pending_ & bit)) return false;
  if (!charge_signal(charge)) {
    // Standard signals of the kernel and of kill(2) are never refused: there are at most 31 of them
    // in a queue.
    if (standard && info.code >= 0) {
      force_charge(charge.user);
    } else if (standard || info.code == SI_USER) {
      pending_ |= bit;
      return true;
    } else {
      return false;
    }
  }
  pending_ |= bit;
  queue_.push_back({info, charge.user, false});
  return true;
}

void SignalQueue::push_of_timer(const SignalInfo& info) {
  pending_ |= signal_bit(info.signo);
  queue_.push_back({info, 0, true});
}

bool SignalQueue::pop(SignalMask blocked, SignalInfo& out, bool& of_timer) {
  const SignalMask ready = pending_ & ~blocked;
  if (!ready) return false;
  const SignalMask first = ready & kSynchronous ? ready & kSynchronous : ready;
  const int signo = __builtin_ctzll(first) + 1;
  bool found = false;
  bool more = false;
  for (auto it = queue_.begin(); it != queue_.end();) {
    if (it->info.signo != signo) {
      ++it;
    } else if (!found) {
      out = it->info;
      of_timer = it->of_timer;
      found = true;
      uncharge(*it);
      it = queue_.erase(it);
    } else {
      more = true;
      break;
    }
  }
  if (!more) pending_ &= ~signal_bit(signo);
  if (!found) {
    // There was no place for its siginfo (collect_signal()).
    out = {};
    out.signo = signo;
    out.code = SI_USER;
    of_timer = false;
  }
  return true;
}

void SignalQueue::remove(SignalMask signals) {
  std::erase_if(queue_, [&](const Entry& entry) {
    if (!(signal_bit(entry.info.signo) & signals)) return false;
    uncharge(entry);
    return true;
  });
  pending_ &= ~signals;
}

void SignalQueue::remove_of_timer(int signo, int timer_id) {
  const auto gone = std::erase_if(queue_, [&](const Entry& entry) {
    return entry.of_timer && entry.info.signo == signo && entry.info.timer.timer_id == timer_id;
  });
  if (gone == 0) return;
  for (const Entry& entry : queue_) {
    if (entry.info.signo == signo) return;
  }
  pending_ &= ~signal_bit(signo);
}

void SignalQueue::clear() {
  for (const Entry& entry : queue_) uncharge(entry);
  queue_.clear();
  pending_ = 0;
}

SignalQueue::~SignalQueue() { clear(); }

}  // namespace uks
