// The event thread.
#include "sentry/task/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>

#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"

namespace uks {
namespace {

constexpr uint64_t kTimerId = 0;
constexpr uint64_t kStopId = 1;

Result<void> add_fd(int epoll, int fd, uint32_t events, uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) return HostErr();
  return {};
}

}  // namespace

Result<void> EventLoop::init() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return HostErr();
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) return HostErr();
  stop_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_) return HostErr();
  // Edge-triggered, or it would wake all event threads.
  TRY(add_fd(epoll_.get(), timer_.get(), EPOLLIN | EPOLLET, kTimerId));
  TRY(add_fd(epoll_.get(), stop_.get(), EPOLLIN, kStopId));
  kernel_.timers.set_timer_fd(timer_.get());
  return {};
}

Result<void> EventLoop::add(int host_fd, uint32_t events, HostWatcher& watcher) {
  const uint64_t id = next_id_++;
  TRY(add_fd(epoll_.get(), host_fd, events, id));
  watchers_[id] = &watcher;
  ids_[host_fd] = id;
  return {};
}

Result<void> EventLoop::modify(int host_fd, uint32_t events) {
  auto it = ids_.find(host_fd);
  if (it == ids_.end()) return Err(ENOENT);
  epoll_event event{};
  event.events = events;
  event.data.u64 = it->second;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, host_fd, &event) < 0) return HostErr();
  return {};
}

void EventLoop::remove(int host_fd) {
  auto it = ids_.find(host_fd);
  if (it == ids_.end()) return;
  epoll_event event{};  // old kernels want one
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, host_fd, &event);
  watchers_.erase(it->second);
  ids_.erase(it);
}

void EventLoop::run() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (n < 0) {
      if (errno == EINTR) continue;
      return;
    }
    kernel_lock.lock();
    bool stopped = false;
    for (int i = 0; i < n; i++) {
      const auto& event = events[static_cast<size_t>(i)];
      if (event.data.u64 == kStopId) stopped = true;
      if (event.data.u64 == kTimerId) {
        uint64_t count = 0;
        // Nothing to read: it was set anew in the meantime; the queue looks at its own times
        // anyway.
        [[maybe_unused]] const ssize_t r = read(timer_.get(), &count, sizeof count);
        kernel_.timers.run(monotonic_now());
        continue;
      }
      auto it = watchers_.find(event.data.u64);
      if (it != watchers_.end()) it->second->on_host_events(event.events);
    }
    kernel_.unlock_and_flush();
    if (stopped) return;
  }
}

void EventLoop::stop() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t r = write(stop_.get(), &one, sizeof one);
}

}  // namespace uks
