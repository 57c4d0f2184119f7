// The trap platform: stub processes under a seccomp filter, their notifications, the pool of fresh
// ones.
//
// All state is under the kernel lock, which the platform is given. Replies are collected while it
// is held and sent after it is dropped (PITFALLS 4).
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "platform/base/mutex.h"
#include "platform/host/sanitizer_calls.h"
#include "platform/platform.h"
#include "platform/trap/zygote.h"

namespace uks {

// A zygote and the way in which it and its descendants hand over.
struct StubFamily {
  Zygote zygote;
  std::unique_ptr<Notifier> notifier;
};

class TrapPlatform final : public Platform, public MemoryByOrder {
 public:
  TrapPlatform(Mutex& kernel_lock, keeper::Channel& keeper, const StubLayout& layout,
               std::vector<StubFamily> families);
  ~TrapPlatform() override;

  // Starts the first workers of each listener, the watcher and the reaper. `client` outlives the
  // platform. EAGAIN: the host refuses threads.
  Result<void> start(PlatformClient& client, unsigned pool_size);

  // ---- Platform
  void reply(GuestThread& thread, Reply reply) override;
  void end_thread(GuestThread* thread) override;
  void end_process(AddressSpace& mm) override;
  Result<GuestThread*> clone(GuestThread& parent, const ClonePlan& plan) override;
  void order_clone(GuestThread& parent) override;
  void abandon_child(GuestThread* child) override;
  GuestThread* take_stub() override;
  void kick(GuestThread& thread) override;
  void sweep() override;
  void freeze(AddressSpace& mm) override;
  void thaw(AddressSpace& mm) override;
  const StubLayout& layout() const override { return layout_; }
  keeper::Channel& keeper() override { return keeper_; }
  bool holders_are_ending() const override;
  void unlock_and_flush() override UKS_TSA(release_capability(lock_))
      UKS_TSA(no_thread_safety_analysis);
  void unlock_to_block() override UKS_TSA(no_thread_safety_analysis);
  void lock_again() override UKS_TSA(no_thread_safety_analysis);
  void let_another_receive() override;
  bool is_last_of_its_kind() override;
  bool should_run_handlers() override;

  size_t process_count() const { return by_pid_.size(); }
  // Fresh stubs at hand.
  size_t pooled() const { return pool_.size(); }

 private:
  static constexpr unsigned kWorkers = 8;  // at most, per shard
  static constexpr unsigned kNobody = kWorkers;
  // At the start; the others when all are busy, or with this process of the guest: threads are a
  // good part of what a short command costs. Processes count against the host's limits just as
  // threads do: a guest that makes many must find the workers made. The sanitizers' libraries make
  // threads in ways of their own, which the sentry's filter does not know.
  static constexpr unsigned kFirstWorkers = kSanitized ? kWorkers : 2;
  static constexpr size_t kManyProcesses = 12;              // zygotes and fresh stubs included
  static constexpr int64_t kRefusalLasts = 50'000'000;      // ns without another try
  static constexpr int64_t kPatience = 5'000'000;           // ns
  static constexpr int64_t kWatchAfterwards = 500'000'000;  // ns that the watcher stays awake

  struct Shard {
    explicit Shard(std::unique_ptr<Notifier> way) : notifier(std::move(way)) {}
    const std::unique_ptr<Notifier> notifier;
    GuestThread* zygote = nullptr;
    Ref<AddressSpace> zygote_mm;
    bool zygote_idle = false;
    // At most one thread receives at a time (PITFALLS 1).
    std::mutex role_mutex;
    unsigned workers = 0;    // that exist, by index
    int64_t refused_at = 0;  // CLOCK_MONOTONIC ns when the host would not have one more; 0: never
    // The worker that receives. kNobody: whoever comes first is to, one that was woken for it or
    // one that is done with something else.
    std::atomic<unsigned> receiver{kNobody};
    std::array<bool, kWorkers> busy{};  // it handles a notification
    std::array<std::condition_variable, kWorkers> wake;
    bool errand = false;  // an idle worker is to run what is pending
    // By worker: since when it is in a host call, CLOCK_MONOTONIC ns; 0: it is not. Each worker
    // writes its own.
    std::array<std::atomic<int64_t>, kWorkers> blocked_since{};
  };
  struct Worker {
    Shard* shard = nullptr;
    unsigned index = 0;
  };
  static thread_local Worker current_worker_;
  // An idle worker of a shard, beside the receiver and those that something is left for; if there
  // is none, a new one. kNobody: the shard has kWorkers, or the host refuses more. This and the
  // next three with the role mutex held.
  unsigned idle_worker(Shard& shard);
  static void wake(Shard& shard, unsigned worker);
  // To an idle worker, if there is one.
  void give_role_away(Shard& shard);
  // One more worker. False: the host refuses.
  bool add_worker(Shard& shard);
  // Those that there is still room for. Without a role mutex.
  void make_all_workers();
  struct Outgoing {
    Notifier* notifier;
    uint64_t id;
    bool approve;
    int fd;                    // -1: none
    int number;                // what it is to be called in the stub
    uint64_t landing;          // with a tracer: where the thread receives it
    UniqueFd owned;            // keeps `fd` open where it is ours to close
    Ref<AddressSpace> mm;      // ... or this does (a window)
    uint32_t action = 0;       // an answer's
    uks_copy* copy = nullptr;  // not an answer: the next turn for a stub that copies
    uint32_t turn = 0;
  };

  // ---- Copy orders (copy_orders.cc)
  struct CopyWaiter;
  Ref<GuestThread> take_to_copy(AddressSpace& mm, GuestThread* own) override;
  Result<int64_t> order_memory(GuestThread& thread, const uks_order& order, void* bytes) override;
  void give_back(GuestThread& thread) override;
  static GuestThread* find_to_copy(AddressSpace& mm, GuestThread* own);
  // Gives a thread that waits in the sentry to who waits for one. False: nobody does.
  bool offer_to_copy(GuestThread& thread);
  // Who waits for one of its threads waits no longer.
  void memory_is_gone(const AddressSpace& mm);
  // Of the calling thread's kind, to go on while it waits. Without the kernel lock, or with it.
  static bool nobody_is_left();
  static bool wait_for_turn(const GuestThread& thread);
  // The answer to a thread that nobody has taken, whether its stub copies or not.
  void send_answer(GuestThread& thread, Outgoing out);
  static void say_turn(uks_copy& copy, uint32_t turn);
  // The hand-off for an answer with a descriptor.
  void turns_ended(GuestThread& thread, const Notification& n);

  void work(Shard& shard, unsigned index);
  // Hands the receiver's role on where a worker has been blocked for too long. Sleeps while nobody
  // blocks.
  void watch();
  bool blocked_lately() const;
  void unlock_and_send() UKS_TSA(no_thread_safety_analysis);
  void reap();
  void reap(Notifier& notifier, pid_t pid);
  void handle(Shard& shard, const Notification& n);
  void handle_hello(const Notification& n);
  void handle_clone(GuestThread* thread, const Notification& n);
  bool is_child(pid_t pid) const;
  bool is_sound_report(GuestThread& thread);
  bool child_reported(GuestThread& parent);
  void child_vanished(GuestThread* child);
  void process_died(pid_t pid);
  void refill();
  void pause_refill();
  void end_silent_threads();
  void deny(const Notification& n);
  void end_liar(GuestThread& thread, const char* lie);
  // A host process that was ordered may exist that nobody is accountable for.
  void suspect_stray();
  Notifier& notifier_of(const GuestThread& thread) {
    return *shards_[thread.mm().shard()]->notifier;
  }
  void write_reply(GuestThread& thread, const Reply& reply);
  void forget(GuestThread* thread);
  GuestThread* new_thread(const Ref<AddressSpace>& mm, unsigned index);
  uint64_t new_token();

  Mutex& lock_;
  keeper::Channel& keeper_;
  const StubLayout& layout_;
  PlatformClient* client_ = nullptr;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::mutex watch_mutex_;
  std::condition_variable watch_changed_;
  std::atomic<bool> watching_{false};
  std::atomic<int64_t> last_block_{0};
  unsigned others_away_ = 0;  // threads without a shard that have dropped the lock to wait
  // Fresh stubs wanted: one for the first program, none for one that does not fork, `full_pool_` as
  // soon as something forks, which is likely to exec next. A stub that is not needed costs start
  // and end.
  bool taken_ = false;  // the first process has its stub
  int64_t refill_after_ms_ = 0;
  unsigned pool_size_ = 1;
  unsigned full_pool_ = 0;
  bool forked_ = false;
  bool all_workers_ = false;  // have been made, as far as the host allowed
  bool traced_ = false;       // stubs' threads are tracees
  unsigned in_the_making_ = 0;
  size_t next_shard_ = 0;  // whose zygote makes the next stub
  std::deque<GuestThread*> pool_;
  std::unordered_map<pid_t, GuestThread*> by_tid_;
  std::map<pid_t, Ref<AddressSpace>> by_pid_;
  std::unordered_map<uint64_t, GuestThread*> awaited_;  // by token: said no hello yet
  std::unordered_map<pid_t, GuestThread*> unheard_;     // by host pid, from the parent's report
  std::vector<pid_t> dead_unheard_;                     // reaped before either was known
  unsigned suspects_ = 0;                               // at most so many strays
  uint64_t sweeps_ = 0;                                 // that found none
  std::map<pid_t, int64_t> strangers_;                  // children unknown to us, since when (ms)
  // Answers to threads that are taken to copy, or have to come in for them.
  std::unordered_map<GuestThread*, Outgoing> held_;
  std::vector<CopyWaiter*> copy_waiters_;
  std::vector<Outgoing> outgoing_;
};

}  // namespace uks
