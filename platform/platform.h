// The platform's objects as the sentry uses them: an AddressSpace is one stub process, a
// GuestThread one host thread in it.
#pragma once
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "platform/base/mutex.h"
#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "platform/base/unique_fd.h"
#include "platform/channel/slot.h"
#include "platform/channel/window.h"
#include "platform/keeper/channel.h"
#include "platform/trap/layout.h"
#include "platform/trap/notifier.h"

namespace uks {

class AddressSpace;
class GuestThread;
class Task;

// A shared object mapped into a guest: what a shared futex word is keyed by.
using SharedKey = std::pair<uint64_t, uint64_t>;  // (host inode, offset)

// What the sentry tells a stub, built up during a call and sent with the reply.
struct Reply {
  uint32_t action = UKS_ACTION_RESUME;
  uint32_t flags = 0;
  uint64_t ret = 0;
  UniqueFd donated;  // given to the stub with the reply
};

// Guest memory by the stub's own hands, where /proc/PID/mem is refused (Yama, an outer filter).
class MemoryByOrder {
 public:
  // Under the kernel lock, which it may drop: a thread of `mm` that waits in the sentry is the
  // caller's for copying until it gives it back. `own`: of the call that asks, which is it unless
  // it copies for somebody else; null: another process's. Null: there is none, and none came in.
  virtual Ref<GuestThread> take_to_copy(AddressSpace& mm, GuestThread* own) = 0;
  // Without the kernel lock: one order of op, addr, length (and prot, flags: UKS_ORDER_CMPXCHG).
  // `length` bytes at most (kMaxCopy) move from or to `bytes`. What the stub says came of it.
  // EFAULT; EIO: it is dead, or does not obey.
  static constexpr size_t kMaxCopy = UKS_COPY_DATA_SIZE;
  virtual Result<int64_t> order_memory(GuestThread& thread, const uks_order& order,
                                       void* bytes) = 0;
  // Under the kernel lock. Who did not obey loses its process.
  virtual void give_back(GuestThread& thread) = 0;
  bool memory_refused = false;  // found out at the first attempt

 protected:
  ~MemoryByOrder() = default;
};

// Whether a thread's stub is in UKS_ACTION_COPY.
enum class Copying { kNo, kInTurns, kReporting };

class GuestThread : public RefCounted {
 public:
  GuestThread(Ref<AddressSpace> mm, unsigned index) : mm_(std::move(mm)), index_(index) {}
  GuestThread(const GuestThread&) = delete;
  GuestThread& operator=(const GuestThread&) = delete;
  ~GuestThread() override {
    unlink_child();
    if (clone_parent) clone_parent->clone_child = nullptr;
  }

  AddressSpace& mm() const { return *mm_; }
  unsigned index() const { return index_; }
  uks_slot* slot() const;
  char* data() const;
  uks_copy* copy() const;
  char* copy_data() const;

  // Takes a private copy of what the stub left in the slot. Called once per hand-off.
  void load_call();
  // Guest memory that came along with the call: `n` bytes at `addr`, or null.
  const char* prefetched(uint64_t addr, uint64_t n) const;
  // As much as there is of that, at most `n` bytes; `fault`: what is behind cannot be read.
  struct Piece {
    const char* bytes = nullptr;
    uint64_t length = 0;
    bool fault = false;
  };
  Piece prefetched_piece(uint64_t addr, uint64_t n) const;
  // Where the call's data goes: so many bytes from its start on could be written when the call
  // began.
  uint64_t probed() const { return probed_; }
  // ... and the next one could not.
  bool probe_fault() const { return probe_fault_; }
  // A prefetched string at `addr` (its bytes without the NUL), if there is one that ends.
  std::optional<std::string> prefetched_string(uint64_t addr) const;
  // A prefetched vector of strings.
  std::optional<std::vector<std::string>> prefetched_vector(uint64_t addr) const;

  // ---- Orders of the reply in the making
  void clear_orders() {
    counts_ = false;
    order_count_ = 0;
    data_cursor_ = data_base_;
  }
  // Forgets the prefetched data as well: the whole data area is free for orders.
  void clear_data() {
    range_count_ = 0;
    data_base_ = 0;
    clear_orders();
  }
  // Room for `n` bytes of data that a later order names; null if the slot is full.
  char* reserve_data(uint64_t n, uint64_t* offset);
  uint64_t data_room() const { return UKS_SLOT_DATA_SIZE - data_cursor_; }
  // Gives the end of it back.
  void keep_data(uint64_t end) {
    data_cursor_ = std::min<uint64_t>((end + 7) & ~uint64_t{7}, UKS_SLOT_DATA_SIZE);
  }
  bool add_order(const uks_order& order);
  unsigned order_room() const { return UKS_MAX_ORDERS - order_count_; }
  // Back to what was ordered when there were `count` orders and data up to `cursor`.
  void drop_orders(uint32_t count, uint64_t cursor) {
    order_count_ = count;
    data_cursor_ = cursor;
  }
  uint64_t data_cursor() const { return data_cursor_; }
  // The answer is the number of bytes that the orders copy out (UKS_RESUME_COUNT).
  void set_counts(bool counts) { counts_ = counts; }
  bool counts() const { return counts_; }
  bool has_order_room() const { return order_count_ < UKS_MAX_ORDERS; }
  // An order to copy `n` bytes to the guest. False: no room.
  bool order_copy_out(uint64_t addr, const void* from, uint64_t n);
  uint32_t order_count() const { return order_count_; }

  // ---- State, under the kernel lock
  Task* task = nullptr;    // null: pooled, or ending
  pid_t host_tid = 0;      // 0 until its hello
  bool in_sentry = false;  // it waits for our reply
  bool gone = false;       // ended or dead: kept only by references
  bool maps_donation =
      false;                  // its last reply carried a descriptor to map; until its next hand-off
  uint64_t notification = 0;  // ... to this one
  bool kicked = false;        // a SIGURG is under way
  bool awaits_window = false;  // its next reply carries the window's descriptor
  uint64_t token = 0;          // expected at hello
  int64_t ordered_ms = 0;      // since when that is awaited
  // The clone that it may make next; matched against all six registers.
  bool clone_approved = false;
  bool clone_ordered = false;  // its next words must be the report of a clone
  std::array<uint64_t, 6> clone_args{};
  // An ordered child that has not said hello yet, and the way back.
  GuestThread* clone_child = nullptr;
  GuestThread* clone_parent = nullptr;
  // Copying. While it is taken the first three are the taker's, the kernel lock or not.
  Copying copying = Copying::kNo;
  uint32_t copy_turn = 0;
  bool disobeyed = false;
  bool taken = false;
  bool for_itself = false;         // taken by a call of its own
  bool leaving = false;            // its last answer waits for the end of the copying
  std::atomic<bool> dead = false;  // for a taker, who has no lock: its process is
  pid_t cloned_pid = 0;  // host id of the ordered child, once it has said hello; 0: not yet
  void link_child(GuestThread& child) {
    unlink_child();
    clone_child = &child;
    child.clone_parent = this;
  }
  void unlink_child() {
    if (clone_child) clone_child->clone_parent = nullptr;
    clone_child = nullptr;
  }

  // The call: private copies.
  uint32_t event = 0;
  uint64_t nr = 0;
  std::array<uint64_t, 6> args{};
  uint64_t ip = 0, sp = 0;
  int64_t result = 0;

 private:
  Ref<AddressSpace> mm_;
  unsigned index_;
  std::array<uks_range, UKS_MAX_RANGES> ranges_{};
  unsigned range_count_ = 0;
  uint64_t probed_ = 0;
  bool probe_fault_ = false;
  bool counts_ = false;
  uint64_t data_base_ = 0;    // data area up to here holds prefetched bytes
  uint64_t data_cursor_ = 0;  // ... and up to here, data of orders
  uint32_t order_count_ = 0;
};

class AddressSpace : public RefCounted {
 public:
  AddressSpace(keeper::Channel& keeper, const StubLayout& layout, unsigned shard)
      : keeper_(keeper), layout_(layout), shard_(shard) {}
  ~AddressSpace() override;

  const StubLayout& layout() const { return layout_; }
  unsigned shard() const { return shard_; }

  // Guest memory. How long an access takes is the guest's to say: a page may be of a file that
  // hangs. So it is read and written without the kernel lock (sentry/usermem/memory_access.h).
  enum class Way { kFile, kOrders };
  // /proc/PID/mem, or copy orders where the host refuses that. Under the kernel lock. EIO when the
  // process was already gone at the first use.
  Result<Way> way();
  // By kOrders `copier` does it (MemoryByOrder::take_to_copy), by kFile it is null.
  // Whole, or EFAULT.
  Result<void> read(GuestThread* copier, uint64_t addr, void* to, size_t n);
  Result<void> write(GuestThread* copier, uint64_t addr, const void* from, size_t n);
  // What the last question about the guest's mappings found: many small accesses of one call ask
  // once. Mappings may change meanwhile, as they may after each question.
  struct Allowed {
    uint64_t start = 0, end = 0;
  };
  // Bytes that could be read from `addr` on, up to n; EFAULT if none. `allowed` is of one call and
  // of one direction; null: none is kept.
  Result<size_t> read_some(GuestThread* copier, uint64_t addr, void* to, size_t n,
                           Allowed* allowed = nullptr);
  Result<size_t> write_some(GuestThread* copier, uint64_t addr, const void* from, size_t n,
                            Allowed* allowed = nullptr);
  // Compare-and-exchange of an aligned word; returns the old value. Not atomic by kFile: see
  // FutexTable::claim().
  Result<uint32_t> cmpxchg32(GuestThread* copier, uint64_t addr, uint32_t expected,
                             uint32_t desired);
  // The object and offset behind `addr` if it lies in shared memory.
  std::optional<SharedKey> shared_key(uint64_t addr);
  MemoryByOrder* by_order = nullptr;
  // Opens /proc/PID/mem and maps now rather than at the first use: once the process's first thread
  // has ended, its number no longer leads to the memory (PITFALLS 17).
  void request_memory();
  // /proc/PID/maps as the host shows it; ESRCH when the process is gone.
  Result<std::string> maps();

  // A file of the host's /proc/PID, by name.
  Result<UniqueFd> open_proc(const char* name) {
    return keeper_.open(keeper::Op::kOpenMaps, host_pid, name);
  }

  // Keeps `object` alive as long as the mapping of the host object with inode number `ino` may
  // exist here: until the process ends, or let_go() is told that it is gone (never for `ino` 0).
  // Children inherit it.
  void hold(Ref<RefCounted> object, uint64_t ino);
  void inherit_held(const AddressSpace& parent) { held_ = parent.held_; }
  bool holds_any() const { return !held_.empty(); }
  // Grows with every hold(). None while a thread may be about to map what it was given.
  std::optional<uint64_t> held_stamp() const;
  // Lets go what was held at `stamp`, but for the inodes in `mapped`.
  void let_go(uint64_t stamp, const std::unordered_set<uint64_t>& mapped);

  // A slot for a new thread; EAGAIN when all are taken.
  Result<unsigned> allocate_slot();
  void free_slot(unsigned index);
  // Of a new process: the slot of its only thread.
  void take_slot(unsigned index);

  Window window;
  pid_t host_pid = 0;              // 0 until its hello
  bool gone = false;               // the host process is dead
  bool frozen = false;             // the host process is stopped: Platform::freeze
  bool has_shared_memory = false;  // some shared mapping was ever made here, or inherited
  unsigned users = 0;              // guest thread groups living here (2 during vfork)
  // Process clones that it reported as failed since sweep number `failed_since` (Platform::sweep).
  unsigned failed_clones = 0;
  uint64_t failed_since = 0;
  // Guest layout, for /proc and the loader.
  uint64_t brk_start = 0, stack_top = 0, stack_size = 0;
  uint64_t code_start = 0, code_end = 0, arg_start = 0, arg_end = 0, env_start = 0, env_end = 0;
  std::vector<Ref<GuestThread>> threads;

 private:
  Result<void> open_memory();
  // Of n bytes at `addr`, those before the stub's region and the end of user space. EFAULT: none.
  Result<size_t> guests_part(uint64_t addr, size_t n) const;
  Result<size_t> copy_by_order(GuestThread& copier, uint32_t op, uint64_t addr, void* bytes,
                               size_t n);
  Result<void> open_maps();
  // Both files are also opened and used with the kernel lock dropped. Once open they stay.
  Mutex open_mutex_;

  keeper::Channel& keeper_;
  const StubLayout& layout_;
  unsigned shard_;
  UniqueFd memory_;  // /proc/PID/mem
  UniqueFd maps_;    // /proc/PID/maps
  std::vector<bool> slots_;
  struct Held {
    uint64_t ino = 0;
    uint64_t stamp = 0;  // of the latest hold()
  };
  std::unordered_map<Ref<RefCounted>, Held> held_;
  uint64_t stamp_ = 0;
};

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
  // A stub is in the pool: one of those that wait for one may take it.
  virtual void on_pool_refilled() = 0;
  // Whether anybody waits for a stub.
  virtual bool awaits_stub() const = 0;
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
  uint64_t stack = 0;  // the new guest thread's stack pointer, 0: as the parent's
};

// Stub processes and their threads as the sentry orders them about: platform/trap with a seccomp
// listener or a tracer (trap/notifier.h), platform/fake without any host process. All state is
// under the kernel lock, which the platform is given; replies are collected while it is held and
// sent after it is dropped (PITFALLS 4).
class Platform {
 public:
  Platform() = default;
  Platform(const Platform&) = delete;
  Platform& operator=(const Platform&) = delete;
  virtual ~Platform() = default;

  // ---- Under the kernel lock
  // Answers a waiting thread: the orders collected in it, then `reply`.
  virtual void reply(GuestThread& thread, Reply reply) = 0;
  // Ends the thread (waiting: at once; running: when it next comes in) and forgets it.
  virtual void end_thread(GuestThread* thread) = 0;
  // Ends the whole process.
  virtual void end_process(AddressSpace& mm) = 0;
  // Prepares a clone of `parent`: the child is returned at once, without host thread. EAGAIN,
  // ENOMEM, EMFILE.
  virtual Result<GuestThread*> clone(GuestThread& parent, const ClonePlan& plan) = 0;
  // Then tells `parent` to make it. The child is reported by on_started, the parent comes back with
  // UKS_EVENT_CLONED.
  virtual void order_clone(GuestThread& parent) = 0;
  // Gives up a child whose parent's clone failed.
  virtual void abandon_child(GuestThread* child) = 0;
  // A fresh stub's only thread, waiting for a reply; null: the pool is empty (see
  // on_pool_refilled).
  virtual GuestThread* take_stub() = 0;
  // Makes a running thread come in.
  virtual void kick(GuestThread& thread) = 0;
  // Has host processes killed that were ordered and have not said who they are in kHelloPatience: a
  // hostile guest could otherwise run more of them than are counted, beyond the life of its own.
  // And those with threads of that kind, which cannot be kicked.
  virtual void sweep() = 0;
  // The keeper stops the host process, and lets it go on.
  virtual void freeze(AddressSpace& mm) = 0;
  virtual void thaw(AddressSpace& mm) = 0;
  virtual const StubLayout& layout() const = 0;
  virtual keeper::Channel& keeper() = 0;
  // Whether a process that was ended, but is not dead yet, keeps objects (AddressSpace::hold).
  virtual bool holders_are_ending() const = 0;

  // ---- For every thread that changed kernel state: call it with the lock held; it runs what
  // became runnable, drops the lock, sends the replies.
  virtual void unlock_and_flush() = 0;
  // Around a host call that may block: drops the lock and sends the replies; takes it again. A
  // worker that stays away longer than kPatience loses its role as its shard's receiver to an idle
  // one.
  virtual void unlock_to_block() = 0;
  virtual void lock_again() = 0;
  // The calling thread may be about to wait for long: a worker gives its role as receiver to an
  // idle one now.
  virtual void let_another_receive() = 0;
  // The calling thread must not be the one that waits: no other like it is left to go on. Of a
  // worker's kind are those of its shard, else all threads that are no workers (event threads,
  // reaper).
  virtual bool is_last_of_its_kind() = 0;
  // Whether the calling thread should run handlers. Not if it is the last but for one, not a
  // worker, and an idle worker could be found, which will do it.
  virtual bool should_run_handlers() = 0;
};

// A line of maps.
struct HostMapping {
  uint64_t start = 0, end = 0;
  uint64_t offset = 0;  // in the file, in bytes
  unsigned major = 0, minor = 0;
  uint64_t inode = 0;  // 0: no file
  bool shared = false;
};
// Reads the line at `line` and moves on to the next. False: there is none. (Not sscanf, which looks
// for the end of the whole text at every call.)
bool next_mapping(const char*& line, HostMapping& mapping);

// /proc/PID/smaps (and status, stat, statm) of a stub process, as the host shows it.
Result<std::string> read_host_proc(AddressSpace& mm, const char* name);
// /proc/PID/maps without the stub's own ranges.
Result<std::string> read_maps(AddressSpace& mm);

}  // namespace uks
