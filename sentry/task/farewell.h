// What the memory of an ending thread or process is told, for others that share it.
#pragma once
#include <vector>

#include "platform/base/ref.h"
#include "sentry/task/task.h"
#include "sentry/time/timer_queue.h"

namespace uks {

// Of one thread: its robust futexes, and the word and waiter that set_tid_address(2) named.
struct LastWords {
  pid_t tid = 0;
  UserAddr robust_list, clear_child_tid;
};
// Takes them from the task, once.
LastWords take_last_words(Task& task);
// mm_release() in the kernel. Drops the kernel lock.
void leave_memory(Kernel& kernel, ThreadGroup& group, const Ref<AddressSpace>& mm,
                  const std::vector<LastWords>& words);

// The end of a process that has last words. A page that hangs keeps it from nothing: after
// kPatience it ends without. Its tasks are gone already, it is no zombie yet.
class Farewell final : public RefCounted {
 public:
  static constexpr MonotonicNs kPatience = 100'000'000;

  Farewell(Kernel& kernel, ThreadGroup& group, Ref<AddressSpace> mm, std::vector<LastWords> words,
           std::vector<Ref<GuestThread>> threads, int wait_status);
  // Drops the kernel lock.
  void say();

 private:
  struct Patience final : Timer {
    explicit Patience(Farewell& farewell);
    void on_expire() override { farewell_.end(); }
    Farewell& farewell_;
  };
  void end();

  Kernel& kernel_;
  Ref<ThreadGroup> group_;
  Ref<AddressSpace> mm_;
  std::vector<LastWords> words_;
  std::vector<Ref<GuestThread>> threads_;
  int wait_status_;
  bool ended_ = false;
  Patience patience_;
};

}  // namespace uks
