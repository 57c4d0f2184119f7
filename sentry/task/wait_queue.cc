#include "sentry/task/wait_queue.h"

#include <sys/epoll.h>

namespace uks {

void Waiter::unregister() {
  if (!queue_) return;
  (prev_ ? prev_->next_ : queue_->head_) = next_;
  (next_ ? next_->prev_ : queue_->tail_) = prev_;
  queue_ = nullptr;
  prev_ = next_ = nullptr;
}

WaitQueue::~WaitQueue() {
  while (head_) head_->unregister();
}

void WaitQueue::add(Waiter& waiter, uint32_t mask) {
  waiter.unregister();
  waiter.queue_ = this;
  waiter.mask_ = mask | EPOLLERR | EPOLLHUP;
  waiter.generation_ = generation_;
  waiter.prev_ = tail_;
  (tail_ ? tail_->next_ : head_) = &waiter;
  tail_ = &waiter;
}

int WaitQueue::wake(uint32_t events, int limit) {
  // A callback may unregister any waiter, itself included, or register new ones. So start over after
  // each call; the generation number keeps waiters from being told twice by one wake.
  const uint64_t generation = ++generation_;
  int told = 0;
  while (told < limit) {
    Waiter* waiter = head_;
    while (waiter && (waiter->generation_ >= generation || !(waiter->mask_ & events))) waiter = waiter->next_;
    if (!waiter) break;
    waiter->generation_ = generation;
    told++;
    waiter->on_wake(events);
  }
  return told;
}

}  // namespace uks
