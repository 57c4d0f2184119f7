// Pending signals of one task or process.
#include "sentry/signal/signal_state.h"

namespace uks {
namespace {

constexpr size_t kMaxQueued = 1024;  // per queue; RLIMIT_SIGPENDING's role
constexpr SignalMask kSynchronous = signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGILL) |
                                    signal_bit(SIGTRAP) | signal_bit(SIGFPE) | signal_bit(SIGSYS);

}  // namespace

bool SignalQueue::push(const SignalInfo& info) {
  const SignalMask bit = signal_bit(info.signo);
  if (info.signo < 32 && (pending_ & bit)) return false;
  if (queue_.size() >= kMaxQueued) return false;
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
    } else {
      more = true;
      break;
    }
  }
  if (!more) pending_ &= ~signal_bit(signo);
  return found;
}

void SignalQueue::remove(SignalMask signals) {
  std::erase_if(queue_, [&](const SignalInfo& info) { return signal_bit(info.signo) & signals; });
  pending_ &= ~signals;
}

void SignalQueue::clear() {
  queue_.clear();
  pending_ = 0;
}

}  // namespace uks
