// Pending signals of one task or process.
#include "sentry/signal/signal_state.h"

namespace uks {
namespace {

// RLIMIT_SIGPENDING's role, for each queue and for all of a sandbox.
constexpr size_t kMaxQueued = 8192;
constexpr size_t kMaxQueuedInAll = 65536;
size_t queued_in_all = 0;
constexpr SignalMask kSynchronous = signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGILL) |
                                    signal_bit(SIGTRAP) | signal_bit(SIGFPE) | signal_bit(SIGSYS);

}  // namespace

bool SignalQueue::push(const SignalInfo& info) {
  const SignalMask bit = signal_bit(info.signo);
  if (info.signo < 32 && (pending_ & bit)) return false;
  // Standard signals are never lost: there are at most 31 of them in a queue.
  if (info.signo >= 32 && (queue_.size() >= kMaxQueued || queued_in_all >= kMaxQueuedInAll)) return false;
  queued_in_all++;
  pending_ |= bit;
  queue_.push_back(info);
  return true;
}

bool SignalQueue::pop(SignalMask blocked, SignalInfo& out) {
  const SignalMask ready = pending_ & ~blocked;
  if (!ready) return false;
  const SignalMask first = ready & kSynchronous ? ready & kSynchronous : ready;
  const int signo = __builtin_ctzll(first) + 1;
  bool found = false;
  bool more = false;
  for (auto it = queue_.begin(); it != queue_.end();) {
    if (it->signo != signo) {
      ++it;
    } else if (!found) {
      out = *it;
      found = true;
      it = queue_.erase(it);
      queued_in_all--;
    } else {
      more = true;
      break;
    }
  }
  if (!more) pending_ &= ~signal_bit(signo);
  return found;
}

void SignalQueue::remove(SignalMask signals) {
  queued_in_all -= std::erase_if(queue_, [&](const SignalInfo& info) { return signal_bit(info.signo) & signals; });
  pending_ &= ~signals;
}

void SignalQueue::clear() {
  queued_in_all -= queue_.size();
  queue_.clear();
  pending_ = 0;
}

SignalQueue::~SignalQueue() { clear(); }

}  // namespace uks
