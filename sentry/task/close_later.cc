// The thread that closes.
#include "sentry/task/close_later.h"

#include <time.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "platform/base/thread.h"
#include "sentry/task/kernel_lock.h"

namespace uks {
namespace {

struct Item {
  UniqueFd fd;
  Ref<RefCounted> charge;
};

// Never destroyed: the thread lives as long as the process.
struct Closer {
  std::atomic<bool> running{false};
  std::atomic<uint64_t> given{0};
  std::atomic<uint64_t> closed{0};
  std::mutex mutex;  // after the kernel lock
  std::vector<Item> items;
  std::condition_variable work;

  void run() {
    for (;;) {
      std::vector<Item> batch;
      {
        std::unique_lock lock(mutex);
        work.wait(lock, [this] { return !items.empty(); });
        batch.swap(items);
      }
      for (Item& item : batch) item.fd.reset();
      const size_t count = batch.size();
      {
        const MutexLock lock(kernel_lock);
        batch.clear();
      }
      closed += count;
    }
  }
};

Closer& closer() {
  static auto* const the_closer = new Closer;
  return *the_closer;
}

}  // namespace

void close_later(UniqueFd fd, Ref<RefCounted> charge) {
  Closer& c = closer();
  if (!c.running || !fd.valid()) return;
  {
    const std::lock_guard lock(c.mutex);
    c.items.push_back({std::move(fd), std::move(charge)});
    c.given++;
  }
  c.work.notify_one();
}

bool wait_for_closes() {
  Closer& c = closer();
  const uint64_t target = c.given;
  if (c.closed >= target) return false;
  while (c.closed < target) {
    // Rare (the quota is used up), and no condition variable would send the replies that wait for
    // the lock.
    Unlocked unlocked;
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  return true;
}

Result<void> start_closer() {
  TRY(start_thread([] { closer().run(); }));
  closer().running = true;
  return {};
}

}  // namespace uks
