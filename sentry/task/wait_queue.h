// Wait queues: who wants to hear that an object became ready. All under the kernel lock.
#pragma once
#include <cstdint>

namespace uks {

class WaitQueue;

// One registration on one queue. Unregisters itself when destroyed.
class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  virtual ~Waiter() { unregister(); }

  // Called with the kernel lock held for a wake-up that intersects the mask. May unregister itself
  // or destroy itself; must not touch other waiters of the queue.
  virtual void on_wake(uint32_t events) = 0;

  void unregister();
  bool registered() const { return queue_ != nullptr; }
  WaitQueue* queue() const { return queue_; }

 private:
  friend class WaitQueue;
  WaitQueue* queue_ = nullptr;
  Waiter* prev_ = nullptr;
  Waiter* next_ = nullptr;
  uint32_t mask_ = 0;
  uint64_t generation_ = 0;
};

class WaitQueue {
 public:
  WaitQueue() = default;
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;
  // A queue that goes away forgets its waiters (they stay unregistered).
  ~WaitQueue();

  // `mask`: EPOLL* bits to be told of; EPOLLERR and EPOLLHUP are always included.
  void add(Waiter& waiter, uint32_t mask);
  // Tells waiters whose mask intersects `events` (EPOLL* bits), oldest first; at most `limit` of
  // them. Returns how many were told.
  int wake(uint32_t events, int limit = 0x7fffffff);
  bool empty() const { return head_ == nullptr; }

 private:
  friend class Waiter;
  // A wake-up under way: whom it tells next. Kept right when that waiter leaves.
  struct Cursor {
    Waiter* next;
    Cursor* outer;  // of the wake-up that this one nests in
    bool queue_gone = false;
  };
  Waiter* head_ = nullptr;
  Waiter* tail_ = nullptr;
  Cursor* cursors_ = nullptr;
  uint64_t generation_ = 0;
};

}  // namespace uks
