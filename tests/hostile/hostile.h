// What the hostile guests share: the list of cases, the stub seen from the guest's side.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "platform/channel/slot.h"

namespace hostile {

// How a case's process must end.
enum class End {
  kReturns,     // by itself, with status 0
  kKilled,      // by SIGKILL: the sandbox takes it down
  kKilledLate,  // ... within kLatePatienceMs
  kAny,         // in any way, within kPatienceMs
  kNever,       // not by itself: the runner's kill(2) must work
};

using Function = void (*)();
struct Case {
  const char* name;
  End end;
  Function run;
  const Case* next;
};
// A case registers itself: HOSTILE_CASE(name, End::kKilled) { ... }. Its body runs in a process of
// its own.
class Register {
 public:
  Register(const char* name, End end, Function run);

 private:
  Case entry_;
};
#define HOSTILE_CASE(name, end)                                                    \
  static void name();                                                              \
  static const ::hostile::Register name##_entry(#name, ::hostile::End::end, name); \
  static void name()

const Case* first_case();

// Says why on stderr and ends the process with status 1.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
#define CHECK_THAT(condition)                                                       \
  do {                                                                              \
    if (!(condition)) ::hostile::fail("%s:%d: %s", __FILE__, __LINE__, #condition); \
  } while (0)

// The stub's region, found by asking write(2) which addresses can be read: the kernel hides it from
// /proc/self/maps, but it is no secret.
struct Stub {
  uint64_t base;
  uks_stub_header header;
  uint64_t gadget() const { return base + header.syscall_ip - 2; }
  uks_slot* slot(unsigned index) const {
    return reinterpret_cast<uks_slot*>(base + UKS_STUB_WINDOW + uint64_t{index} * UKS_SLOT_SIZE);
  }
  uks_thread_area* area(unsigned index) const {
    return reinterpret_cast<uks_thread_area*>(base + UKS_STUB_AREAS +
                                              uint64_t{index} * UKS_AREA_SIZE);
  }
};
const Stub& stub();

// The host's system call from the stub's own instruction, past the stub's code: what its filter
// lets through with any registers. Returns what the host returned (or the stub, where the call
// trapped).
long gadget(long nr, uint64_t a1 = 0, uint64_t a2 = 0, uint64_t a3 = 0, uint64_t a4 = 0,
            uint64_t a5 = 0, uint64_t a6 = 0);

// The caller's slot: 0 for the first thread of a program.
inline constexpr unsigned kMainSlot = 0;
// Hands over by hand what slot 0 says; the answer is in the slot afterwards.
long hand_over(uint32_t event);
// A system call of the main thread by hand, without the stub's code. The answer is not carried out.
void call_by_hand(uint64_t nr, uint64_t a1 = 0, uint64_t a2 = 0, uint64_t a3 = 0, uint64_t a4 = 0,
                  uint64_t a5 = 0, uint64_t a6 = 0);
// The clone that the sentry ordered, exactly.
long clone_as_ordered();

// A small generator: the same numbers each run of a case.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t operator()() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return state_ >> 17 ^ state_ << 30;
  }

 private:
  uint64_t state_;
};

// Milliseconds that a case may take on a machine with nothing else to do.
inline constexpr int kPatienceMs = 15'000;
inline constexpr int kLatePatienceMs = 30'000;

}  // namespace hostile
