// A platform without host processes, for unit tests of the sentry: guest memory is a map of pages,
// a guest thread does what the test says, one call at a time. Windows, slots, orders and replies
// are the real ones: what a stub would do with an answer is done here, in steps that a test can
// stop between, and a stub can vanish at each of them.
//
// One thread, the test's, plays all parts; it takes the kernel lock as a worker would. Only the
// keeper has its own.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "platform/base/mutex.h"
#include "platform/fake/fake_memory.h"
#include "platform/platform.h"

namespace uks::fake {

// A signal handler that the guest is in.
struct Handler {
  uint64_t address = 0;
  int signo = 0;
  uint64_t old_mask = 0;
};

class FakePlatform final : public Platform, public MemoryByOrder {
 public:
  explicit FakePlatform(Mutex& kernel_lock);
  ~FakePlatform() override;
  // `client` outlives the platform's use.
  void start(PlatformClient& client) { client_ = &client; }

  // ---- The guest. Without the kernel lock.
  // The thread, which runs, makes this call; then everything goes on until nothing moves. The
  // result, or nothing: it waits in the call, is in a signal handler, runs another image, or is
  // gone.
  std::optional<int64_t> call(GuestThread& thread, uint64_t nr, std::array<uint64_t, 6> args);
  // The same without going on: see step().
  void begin_call(GuestThread& thread, uint64_t nr, std::array<uint64_t, 6> args);
  // The result of its last call, once it is there.
  std::optional<int64_t> result(const GuestThread& thread) const;
  // Whether it runs guest code, so that it can make a call.
  bool runs(const GuestThread& thread) const;
  // The handlers that it is in, innermost last, and rt_sigreturn from that one.
  const std::vector<Handler>& handlers(const GuestThread& thread) const;
  void return_from_handler(GuestThread& thread);
  Memory& memory(const AddressSpace& mm);
  // Where the last image that it was given starts; 0: it was given none.
  uint64_t entry(const GuestThread& thread) const;
  // The first thread of a process that runs from the start: its kernel part is set up by now.
  void let_run(GuestThread& thread);

  // ---- Time passes
  // Does the next thing that a stub has to do. False: there is none.
  bool step();
  void run() {
    while (step()) {
    }
  }

  // ---- What can go wrong
  // The host's SIGKILL: out of memory, or an operator.
  void vanish(AddressSpace& mm);
  // The host refuses the next clones with this errno.
  void refuse_clones(int error) { clone_error_ = error; }
  // Stubs at hand for exec; unlimited until it is set.
  void set_pool(std::optional<unsigned> stubs);

  // Host processes that are there, fresh ones excepted.
  size_t process_count() const { return processes_.size(); }

  // ---- Platform
  void reply(GuestThread& thread, Reply reply) override;
  void end_thread(GuestThread* thread) override;
  void end_process(AddressSpace& mm) override;
  Result<GuestThread*> clone(GuestThread& parent, const ClonePlan& plan) override;
  void order_clone(GuestThread& parent) override;
  void abandon_child(GuestThread* child) override;
  GuestThread* take_stub() override;
  void kick(GuestThread& thread) override;
  void sweep() override {}
  const StubLayout& layout() const override { return layout_; }
  keeper::Channel& keeper() override { return keeper_; }
  bool holders_are_ending() const override { return false; }
  void freeze(AddressSpace&) override {}
  void thaw(AddressSpace&) override {}
  void let_another_receive() override {}
  bool is_last_of_its_kind() override { return false; }
  bool should_run_handlers() override { return true; }
  void unlock_and_flush() override;
  void unlock_to_block() override;
  void lock_again() override;

 private:
  struct Frame {
    Handler handler;
    std::optional<int64_t> rax;  // of the call that it interrupted
    bool restart = false;        // ... which is to be made again
    uint64_t nr = 0;
    std::array<uint64_t, 6> args{};
  };
  // The processor's part of a thread.
  struct Cpu {
    bool running = false;
    uint64_t nr = 0;
    std::array<uint64_t, 6> args{};
    std::optional<int64_t> result;
    std::vector<Frame> frames;
    std::vector<Handler> handlers;
    uint64_t entry = 0;
  };
  struct Process {
    Ref<AddressSpace> mm;
    std::shared_ptr<Memory> memory;
  };
  enum class What { kAnswer, kHello, kCloned, kKick, kDeath };
  struct Step {
    What what;
    Ref<GuestThread> thread;  // kDeath: any of the process
    Ref<AddressSpace> mm;
    Reply reply;         // kAnswer
    int64_t result = 0;  // kCloned
  };

  // MemoryByOrder
  Ref<GuestThread> take_to_copy(AddressSpace& mm, GuestThread* own) override;
  Result<int64_t> order_memory(GuestThread& thread, const uks_order& order, void* bytes) override;
  void give_back(GuestThread& thread) override;

  Cpu& cpu(const GuestThread& thread) { return cpus_[&thread]; }
  Process* process_of(const AddressSpace& mm);
  GuestThread* new_process();
  GuestThread* new_thread(const Ref<AddressSpace>& mm, unsigned index);
  // The thread hands over: takes the lock, as a worker.
  void hand_over(GuestThread& thread, uint32_t event, int64_t result = 0);
  void answer(const Step& step);
  void resume(GuestThread& thread, const Reply& reply, int64_t orders, uint64_t copied);
  int64_t carry_out(GuestThread& thread, const uks_order& order, int donated, uint64_t* copied);
  void make_clone(GuestThread& parent);
  void say_hello(GuestThread& child);
  void report_clone(const Step& step);
  // A process that was ordered, and never spoke.
  void child_vanished(GuestThread& child);
  void die(AddressSpace& mm);
  void forget(GuestThread& thread);

  Mutex& lock_;
  PlatformClient* client_ = nullptr;
  StubLayout layout_;
  UniqueFd keepers_end_;
  keeper::Channel keeper_;
  std::thread keepers_thread_;
  std::vector<Process> processes_;
  std::unordered_map<const GuestThread*, Cpu> cpus_;
  std::deque<Step> steps_;
  pid_t next_pid_ = 5'000'000;  // beyond what the host has: no clock of ours finds it
  std::optional<unsigned> pool_;
  int clone_error_ = 0;
};

}  // namespace uks::fake
