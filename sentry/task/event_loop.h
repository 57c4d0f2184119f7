// EventLoop: what the sentry's event threads do. Host descriptors, deadlines and what else arrives
// from outside.
#pragma once
#include <cstdint>
#include <unordered_map>

#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks {

class Kernel;

// Hears of a host descriptor. Called with the kernel lock held; may remove itself or others.
class HostWatcher {
 public:
  virtual ~HostWatcher() = default;
  // EPOLL* bits.
  virtual void on_host_events(uint32_t events) = 0;
};

class EventLoop {
 public:
  explicit EventLoop(Kernel& kernel) : kernel_(kernel) {}
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Makes the host's epoll, timerfd and eventfd, and gives the timerfd to kernel.timers. To be
  // called before the filters go on.
  Result<void> init();

  // Under the kernel lock. The watcher must be removed before it or its descriptor goes. `events`
  // may have EPOLLET and EPOLLONESHOT. EPERM: a descriptor that is always ready (regular file).
  Result<void> add(int host_fd, uint32_t events, HostWatcher& watcher);
  Result<void> modify(int host_fd, uint32_t events);
  void remove(int host_fd);

  // An event thread's life: until stop(). There may be several. Takes the kernel lock for the
  // callbacks of each round, and calls kernel.unlock_and_flush() after them.
  void run();
  // From any thread.
  void stop();

 private:
  Kernel& kernel_;
  UniqueFd epoll_;
  UniqueFd timer_;
  UniqueFd stop_;
  // Events carry an id, so that one for a watch that is gone finds nothing.
  std::unordered_map<uint64_t, HostWatcher*> watchers_;
  std::unordered_map<int, uint64_t> ids_;
  uint64_t next_id_ = 2;
};

}  // namespace uks
