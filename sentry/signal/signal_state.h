// Signal state of tasks and thread groups: masks, actions, pending queues. Guests' signals are
// wholly virtual: the host's masks and actions of a stub never change.
#pragma once
#include <signal.h>

#include <array>
#include <cstdint>
#include <deque>
#include <list>

#include "platform/base/ref.h"

namespace uks {

// Bit n-1 stands for signal n, as in the kernel's sigset_t.
using SignalMask = uint64_t;
inline constexpr int kSignalCount = 64;
constexpr SignalMask signal_bit(int sig) { return SignalMask{1} << (sig - 1); }
inline constexpr SignalMask kUnblockable =
    (SignalMask{1} << (9 - 1)) | (SignalMask{1} << (19 - 1));  // KILL, STOP

// The kernel's struct sigaction on x86-64.
struct GuestSigaction {
  uint64_t handler = 0;  // 0 SIG_DFL, 1 SIG_IGN
  uint64_t flags = 0;
  uint64_t restorer = 0;
  SignalMask mask = 0;
};
static_assert(sizeof(GuestSigaction) == 32);

class SignalActions : public RefCounted {
 public:
  GuestSigaction& operator[](int sig) { return table_[static_cast<size_t>(sig - 1)]; }
  const GuestSigaction& operator[](int sig) const { return table_[static_cast<size_t>(sig - 1)]; }

 private:
  std::array<GuestSigaction, kSignalCount> table_{};
};

struct AltStack {
  uint64_t base = 0;
  uint64_t size = 0;
  int flags = SS_DISABLE;
};

// The kernel's siginfo_t, 128 bytes, as the guest sees it.
struct SignalInfo {
  int32_t signo = 0;
  int32_t error = 0;
  int32_t code = 0;
  int32_t pad = 0;
  union {
    struct {
      int32_t pid;
      uint32_t uid;
      uint64_t value;
    } rt;  // kill, tgkill, sigqueue
    struct {
      int32_t timer_id;
      int32_t overrun;
      uint64_t value;
    } timer;
    struct {
      int32_t pid;
      uint32_t uid;
      int32_t status;
      int32_t pad;
      int64_t utime;
      int64_t stime;
    } child;
    struct {
      uint64_t addr;
      int16_t addr_lsb;
    } fault;
    struct {
      int64_t band;
      int32_t fd;
    } poll;
    unsigned char raw[112] = {};
  };
};
static_assert(sizeof(SignalInfo) == 128);

// Whose RLIMIT_SIGPENDING a queued signal counts against: the receiver's real user and limit.
struct SignalCharge {
  uid_t user = 0;
  uint64_t limit = UINT64_MAX;  // entries
};
// Takes one of the user's places, as a timer does for its signal. False: there is none.
bool charge_signal(SignalCharge charge);
void uncharge_signal(uid_t user);

// Pending signals: standard ones once each, real-time ones (>= 32) queued.
class SignalQueue {
 public:
  SignalQueue() = default;
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  ~SignalQueue();
  SignalMask pending() const { return pending_; }
  // Returns false when a standard signal is pending already, or the user's places are used up: then
  // EAGAIN for a real-time signal of sigqueue(3); another one is pending without its siginfo
  // (__send_signal_locked()).
  bool push(const SignalInfo& info, SignalCharge charge);
  // The signal of a timer, which has its own place: also beside one of the same number.
  void push_of_timer(const SignalInfo& info);
  // Removes the next signal that `mask` does not block: synchronous faults first, then lowest
  // number. `of_timer`: push_of_timer() made it.
  bool pop(SignalMask blocked, SignalInfo& out, bool& of_timer);
  void remove(SignalMask signals);
  // The signal of a timer that goes away.
  void remove_of_timer(int signo, int timer_id);
  void clear();

 private:
  struct Entry {
    SignalInfo info;
    uid_t user;     // who is charged
    bool of_timer;  // nobody is
  };
  static void uncharge(const Entry& entry);

  SignalMask pending_ = 0;
  std::list<Entry> queue_;
};

}  // namespace uks
