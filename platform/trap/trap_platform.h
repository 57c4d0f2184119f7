// The trap platform: stub processes under a seccomp filter, their notifications, the pool of fresh ones.
//
// All state is under the kernel lock, which the platform is given. Replies are collected while it is
// held and sent after it is dropped (PITFALLS 4).
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "platform/base/mutex.h"
#include "platform/platform.h"
#include "platform/trap/zygote.h"

namespace uks {

// The kernel above the platform. All calls come with the kernel lock held.
class PlatformClient {
 public:
  virtual ~PlatformClient() = default;
  // A guest's thread handed over (thread.event says why); it waits for Platform::reply.
  virtual void on_handoff(GuestThread& thread) = 0;
  // A new guest thread or process said hello; it waits for Platform::reply.
  virtual void on_started(GuestThread& thread) = 0;
  // The host process died under this thread; `thread` is destroyed after the call.
  virtual void on_gone(GuestThread& thread) = 0;
  // A stub came into the pool.
  virtual void on_pool_refilled() = 0;
  // A thread that was `wanted` while its stub copied can be answered again.
  virtual void on_turns_ended(GuestThread& thread) = 0;
  // Before the lock is dropped: runs what became runnable.
  virtual void run_pending() = 0;
  // Calls Platform::sweep once in so many milliseconds, unless a call is already due earlier.
  virtual void sweep_later(int64_t milliseconds) = 0;
  // The platform cannot go on (a zygote died): the sandbox ends.
  virtual void on_fatal(const char* reason) = 0;
};

// A clone that a stub thread is told to make.
struct ClonePlan {
  bool same_memory = false;  // a host thread of the same stub process
  bool set_tls = false;
  uint64_t tls = 0;
  uint64_t stack = 0;        // the new guest thread's stack pointer, 0: as the parent's
};

// A zygote and the way in which it and its descendants hand over.
struct StubFamily {
  Zygote zygote;
  std::unique_ptr<Notifier> notifier;
};

class Platform final : public MemoryByOrder {
 public:
  Platform(Mutex& kernel_lock, keeper::Channel& keeper, const StubLayout& layout,
           std::vector<StubFamily> families);
  ~Platform();

  // Starts a worker for each listener and the reaper. `client` outlives the platform.
  void start(PlatformClient& client, unsigned pool_size);

  // ---- Under the kernel lock
  // Answers a waiting thread: the orders collected in it, then `reply`.
  void reply(GuestThread& thread, Reply reply);
  // Ends the thread (waiting: at once; running: when it next comes in) and forgets it.
  void end_thread(GuestThread* thread);
  // Ends the whole process.
  void end_process(AddressSpace& mm);
  // Prepares a clone of `parent`: the child is returned at once, without host thread. EAGAIN, ENOMEM, EMFILE.
  Result<GuestThread*> clone(GuestThread& parent, const ClonePlan& plan);
  // Then tells `parent` to make it. The child is reported by on_started, the parent comes back with
  // UKS_EVENT_CLONED.
  void order_clone(GuestThread& parent);
  // Gives up a child whose parent's clone failed.
  void abandon_child(GuestThread* child);
  // A fresh stub's only thread, waiting for a reply; null: the pool is empty (see on_pool_refilled).
  GuestThread* take_stub();
  // Makes a running thread come in.
  void kick(GuestThread& thread);
  // Has host processes killed that were ordered and have not said who they are in kHelloPatience: a
  // hostile guest could otherwise run more of them than are counted, beyond the life of its own. And those with
  // threads of that kind, which cannot be kicked.
  void sweep();
  // The keeper stops the host process, and lets it go on.
  void freeze(AddressSpace& mm);
  void thaw(AddressSpace& mm);
  const StubLayout& layout() const { return layout_; }
  keeper::Channel& keeper() { return keeper_; }
  size_t process_count() const { return by_pid_.size(); }
  // Whether a process that was ended, but is not dead yet, keeps objects (AddressSpace::hold).
  bool holders_are_ending() const;

  // ---- For every thread that changed kernel state: call it with the lock held; it runs what became
  // runnable, drops the lock, sends the replies.
  void unlock_and_flush() UKS_TSA(release_capability(lock_)) UKS_TSA(no_thread_safety_analysis);
  // Around a host call that may block: drops the lock and sends the replies; takes it again. A worker
  // that stays away longer than kPatience loses its role as its shard's receiver to an idle one.
  void unlock_to_block() UKS_TSA(no_thread_safety_analysis);
  void lock_again() UKS_TSA(no_thread_safety_analysis);
  // The calling thread may be about to wait for long: a worker gives its role as receiver to an idle one now.
  void let_another_receive();
  // The calling thread must not be the one that waits: no other like it is left to go on. Of a worker's kind are
  // those of its shard, else all threads that are no workers (event threads, reaper).
  bool is_last_of_its_kind();
  // Whether the calling thread should run handlers. Not if it is the last but for one, not a worker, and an idle
  // worker could be found, which will do it.
  bool should_run_handlers();
  // Fresh stubs at hand.
  size_t pooled() const { return pool_.size(); }

 private:
  static constexpr unsigned kWorkers = 8;                   // per shard
  static constexpr int64_t kPatience = 5'000'000;           // ns
  static constexpr int64_t kWatchAfterwards = 500'000'000;  // ns that the watcher stays awake

  struct Shard {
    explicit Shard(std::unique_ptr<Notifier> way) : notifier(std::move(way)) {}
    const std::unique_ptr<Notifier> notifier;
    GuestThread* zygote = nullptr;
    Ref<AddressSpace> zygote_mm;
    bool zygote_idle = false;
    // At most one thread receives at a time (PITFALLS 1).
    std::array<std::thread, kWorkers> workers;
    std::mutex role_mutex;
    std::condition_variable role_changed;
    std::atomic<unsigned> receiver{0};        // index of the worker that has the role
    std::array<bool, kWorkers> busy{};        // it handles a notification
    bool errand = false;                      // an idle worker is to run what is pending
    // By worker: since when it is in a host call, CLOCK_MONOTONIC ns; 0: it is not. Each worker writes its own.
    std::array<std::atomic<int64_t>, kWorkers> blocked_since{};
  };
  struct Worker {
    Shard* shard = nullptr;
    unsigned index = 0;
  };
  static thread_local Worker current_worker_;
  // An idle worker of a shard, beside the receiver, or kWorkers. With the role mutex held.
  static unsigned idle_worker(const Shard& shard);
  struct Outgoing {
    Notifier* notifier;
    uint64_t id;
    bool approve;
    int fd;                 // -1: none
    int number;             // what it is to be called in the stub
    uint64_t landing;       // with a tracer: where the thread receives it
    UniqueFd owned;         // keeps `fd` open where it is ours to close
    Ref<AddressSpace> mm;   // ... or this does (a window)
  };

  // ---- Copy orders (copy_orders.cc)
  Result<int64_t> order_memory(AddressSpace& mm, const uks_order& order, void* bytes) override;
  static GuestThread* thread_to_copy(AddressSpace& mm);
  static void end_turns(GuestThread& thread);
  // Of the threads that this host thread has sent to copy.
  static void end_own_turns();
  void turns_ended(GuestThread& thread, const Notification& n);
  static thread_local std::vector<Ref<GuestThread>> in_turns_;

  void work(Shard& shard, unsigned index);
  // Hands the receiver's role on where a worker has been blocked for too long. Sleeps while nobody blocks.
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
  void end_silent_threads();
  void deny(const Notification& n);
  void end_liar(GuestThread& thread, const char* lie);
  // A host process that was ordered may exist that nobody is accountable for.
  void suspect_stray();
  Notifier& notifier_of(const GuestThread& thread) { return *shards_[thread.mm().shard()]->notifier; }
  void write_reply(GuestThread& thread, const Reply& reply);
  void forget(GuestThread* thread);
  GuestThread* new_thread(const Ref<AddressSpace>& mm, unsigned index);
  uint64_t new_token();

  Mutex& lock_;
  keeper::Channel& keeper_;
  const StubLayout& layout_;
  PlatformClient* client_ = nullptr;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::thread reaper_;
  std::thread watcher_;
  std::mutex watch_mutex_;
  std::condition_variable watch_changed_;
  std::atomic<bool> watching_{false};
  std::atomic<int64_t> last_block_{0};
  unsigned others_away_ = 0;  // threads without a shard that have dropped the lock to wait
  // Fresh stubs wanted: one for the first program, none for one that does not fork, `full_pool_` as soon
  // as something forks, which is likely to exec next. A stub that is not needed costs start and end.
  unsigned pool_size_ = 1;
  unsigned full_pool_ = 0;
  bool forked_ = false;
  bool traced_ = false;  // stubs' threads are tracees
  unsigned in_the_making_ = 0;
  size_t next_shard_ = 0;  // whose zygote makes the next stub
  std::deque<GuestThread*> pool_;
  std::unordered_map<pid_t, GuestThread*> by_tid_;
  std::map<pid_t, Ref<AddressSpace>> by_pid_;
  std::unordered_map<uint64_t, GuestThread*> awaited_;     // by token: said no hello yet
  std::unordered_map<pid_t, GuestThread*> unheard_;        // by host pid, from the parent's report
  std::vector<pid_t> dead_unheard_;                        // reaped before either was known
  unsigned suspects_ = 0;                                  // at most so many strays
  uint64_t sweeps_ = 0;                                    // that found none
  std::map<pid_t, int64_t> strangers_;                     // children unknown to us, since when (ms)
  std::unordered_map<GuestThread*, Outgoing> held_;         // answers to threads whose stubs still copy
  std::vector<Outgoing> outgoing_;
};

}  // namespace uks
