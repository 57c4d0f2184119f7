// timerfd(2), after fs/timerfd.c: a periodic timer stops at its first unread expiry and is set anew
// by the read, which counts the periods that passed. So a short period costs nothing while nobody
// reads.
#include "sentry/fs/timerfd/timerfd.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "sentry/time/clock.h"
#include "sentry/vfs/anon.h"

namespace uks {

TimerFd::TimerFd(TimerQueue& queue, clockid_t clock, int flags, Ref<Inode> inode)
    : File(Path{}, flags), clock_(clock), inode_(std::move(inode)), alarm_(queue, *this) {}

TimerFd::~TimerFd() = default;

void TimerFd::expired() {
  expiries_++;
  if (interval_ == 0) due_ = 0;
  queue_.wake(EPOLLIN | EPOLLRDNORM);
}

void TimerFd::catch_up() {
  if (interval_ == 0 || due_ == 0) return;
  const MonotonicNs now = monotonic_now();
  if (due_ > now) return;
  // `due_` itself is counted by expired(), unless the event thread has not come to it yet.
  const int64_t periods = (now - due_) / interval_ + 1;
  expiries_ += static_cast<uint64_t>(periods) - (alarm_.armed() ? 0 : 1);
  int64_t next = 0;
  if (__builtin_mul_overflow(periods, interval_, &next) ||
      __builtin_add_overflow(due_, next, &next))
    next = INT64_MAX;
  due_ = next;
  alarm_.arm(due_);
}

Result<size_t> TimerFd::read(Task&, IoSink& sink) {
  if (sink.remaining() < sizeof(uint64_t)) return Err(EINVAL);
  if (expiries_ == 0) return Err(EAGAIN);
  catch_up();
  const uint64_t expiries = std::exchange(expiries_, 0);  // also if it cannot be told
  TRY(sink.write_whole(&expiries, sizeof expiries));
  return sizeof(uint64_t);
}

void TimerFd::set(int64_t value, int64_t interval, bool absolute) {
  alarm_.disarm();
  due_ = 0;
  interval_ = interval;
  expiries_ = 0;
  if (value == 0) return;
  due_ = std::max<MonotonicNs>(1, absolute ? deadline_from_absolute(clock_, to_timespec(value))
                                           : deadline_from_relative_ns(value));
  alarm_.arm(due_);
}

int64_t TimerFd::remaining() {
  if (expiries_ > 0) catch_up();
  if (due_ == 0) return 0;
  return std::max<int64_t>(due_ - monotonic_now(), 1);
}

std::string TimerFd::fdinfo() const {
  const int64_t left = due_ == 0 ? 0 : std::max<int64_t>(due_ - monotonic_now(), 0);
  return fmt::format(
      "clockid: {}\nticks: {}\nsettime flags: 00\nit_value: ({}, {})\nit_interval: ({}, {})\n",
      clock_, expiries_, left / kNsPerSecond, left % kNsPerSecond, interval_ / kNsPerSecond,
      interval_ % kNsPerSecond);
}

}  // namespace uks
