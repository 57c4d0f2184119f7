#include "sentry/task/wait_queue.h"

#include <sys/epoll.h>

namespace uks {

void Waiter::unregister() {
  if (!queue_) return;
  for (WaitQueue::Cursor* c = queue_->cursors_; c; c = c->outer) {
    if (c->next == this) c->next = next_;
  }
  (prev_ ? prev_->next_ : queue_->head_) = next_;
  (next_ ? next_->prev_ : queue_->tail_) = prev_;
  queue_ = nullptr;
  prev_ = next_ = nullptr;
}

WaitQueue::~WaitQueue() {
  while (head_) head_->unregister();
  for (Cursor* c = cursors_; c; c = c->outer) c->queue_gone = true;
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
  // A callback may unregister any waiter, itself included, register new ones, wake the queue again
  // or destroy it: the cursor is kept right by all of them, and the generation number keeps waiters
  // from being told twice by one wake.
  const uint64_t generation = ++generation_;
  Cursor cursor{head_, cursors_};
  cursors_ = &cursor;
  int told = 0;
  while (told < limit && cursor.next) {
    Waiter* waiter = cursor.next;
    cursor.next = waiter->next_;
    if (waiter->generation_ >= generation || !(waiter->mask_ & events)) continue;
    waiter->generation_ = generation;
    told++;
    waiter->on_wake(events);
    if (cursor.queue_gone) return told;
  }
  cursors_ = cursor.outer;
  return told;
}

}  // namespace uks
