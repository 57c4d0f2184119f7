// eventfd(2), after fs/eventfd.c.
#include "sentry/fs/eventfd/eventfd.h"

#include <fmt/format.h>

#include "sentry/vfs/anon.h"

namespace uks {
namespace {
constexpr uint64_t kMax = ~uint64_t{0};  // never reached by the counter itself
}  // namespace

EventFd::~EventFd() = default;

Result<size_t> EventFd::read(Task&, IoSink& sink) {
  if (sink.remaining() < sizeof(uint64_t)) return Err(EINVAL);
  if (count_ == 0) return Err(EAGAIN);
  const uint64_t value = semaphore_ ? 1 : count_;
  count_ -= value;  // also if it cannot be told
  TRY(sink.write_whole(&value, sizeof value));
  queue_.wake(EPOLLOUT | EPOLLWRNORM);
  return sizeof value;
}

Result<size_t> EventFd::write(Task&, IoSource& source) {
  // Each buffer of a vector is a write of its own.
  if (source.in_buffer() < sizeof(uint64_t)) return Err(EINVAL);
  uint64_t value = 0;
  if (TRY(source.read(&value, sizeof value)) != sizeof value) return Err(EFAULT);
  if (value == kMax) return Err(EINVAL);
  if (kMax - count_ <= value) return Err(EAGAIN);
  count_ += value;
  queue_.wake(EPOLLIN | EPOLLRDNORM);
  return sizeof value;
}

uint32_t EventFd::poll_events() {
  uint32_t events = 0;
  if (count_ > 0) events |= EPOLLIN | EPOLLRDNORM;
  if (count_ < kMax - 1) events |= EPOLLOUT | EPOLLWRNORM;
  return events;
}

std::string EventFd::fdinfo() const {
  return fmt::format("eventfd-count: {:16x}\neventfd-semaphore: {}\n", count_, semaphore_ ? 1 : 0);
}

}  // namespace uks
