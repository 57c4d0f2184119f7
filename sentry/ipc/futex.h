// Futexes: guests' waits on words of memory, queued in the sentry. All under the kernel lock.
#pragma once
#include <sys/epoll.h>

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "platform/base/result.h"
#include "sentry/task/farewell.h"
#include "sentry/task/task.h"
#include "sentry/usermem/user_types.h"

namespace uks {

class MemoryAccess;

// What a futex word is: (address space, address), or for words in shared memory (object, offset).
struct FutexKey {
  uint64_t object = 0;
  uint64_t offset = 0;
  bool shared = false;
  friend bool operator==(const FutexKey&, const FutexKey&) = default;
};

struct FutexKeyHash {
  size_t operator()(const FutexKey& k) const {
    return (k.object ^ (k.object >> 21)) * 0x9e3779b97f4a7c15u ^
           (k.offset >> 2) * 0xc2b2ae3d27d4eb4fu;
  }
};

// A waiting call. It leaves its queue when it is woken or destroyed.
class FutexWaiter final : public CallData {
 public:
  FutexWaiter(class FutexTable& table, Task& task, uint32_t bitset)
      : table_(table), task_(task), bitset_(bitset) {}
  ~FutexWaiter() override;
  bool woken() const { return woken_; }

 private:
  friend class FutexTable;
  FutexTable& table_;
  Task& task_;
  uint32_t bitset_;
  FutexKey key_;
  bool queued_ = false;
  bool woken_ = false;
  std::list<FutexWaiter*>::iterator position_;
};

class FutexTable {
 public:
  static constexpr uint32_t kAnyBit = 0xffffffff;

  void enqueue(const FutexKey& key, FutexWaiter& waiter);
  void remove(FutexWaiter& waiter);
  // Wakes at most `count` waiters whose bitset meets `bitset`, oldest first. Returns how many.
  int wake(const FutexKey& key, int count, uint32_t bitset = kAnyBit);
  // Wakes at most `wake_count` and moves at most `move_count` others to `to`. Returns both sums.
  int requeue(const FutexKey& from, const FutexKey& to, int wake_count, int move_count, int* moved);
  size_t waiting(const FutexKey& key) const;

  // The key of a word of `mm`; `is_private` as FUTEX_PRIVATE_FLAG says. EINVAL: not aligned.
  static Result<FutexKey> key(AddressSpace& mm, UserAddr addr, bool is_private);
  // The sentry's own changes of a word exclude each other: one holds the key while it reads and
  // writes with the kernel lock dropped. False: another does; `released` tells when to try again.
  bool claim(const FutexKey& key) { return claimed_.insert(key).second; }
  void release(const FutexKey& key) {
    claimed_.erase(key);
    released.wake(EPOLLIN);
  }
  WaitQueue released;

 private:
  std::unordered_set<FutexKey, FutexKeyHash> claimed_;
  std::unordered_map<FutexKey, std::list<FutexWaiter*>, FutexKeyHash> queues_;
};

// Walks an ending thread's robust list: marks the words it owns FUTEX_OWNER_DIED. At most 2048
// entries, as ROBUST_LIST_LIMIT; bad addresses end the walk. `to_wake`: a waiter of each of these
// is to be woken. `budget`: entries left for all threads that end together; each costs host calls.
void exit_robust_list(MemoryAccess& memory, AddressSpace& mm, const LastWords& last, int& budget,
                      std::vector<FutexKey>& to_wake);
inline constexpr int kRobustBudget = 8192;

}  // namespace uks
