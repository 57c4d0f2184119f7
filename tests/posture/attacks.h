// What a taken-over sentry would try, as a list of raw system calls. The same list is run in a real
// sentry under its filter, and without any confinement, to show that the attacks are real.
#pragma once
#include <cstdint>
#include <cstdio>

namespace posture {

// The number that the guest calls to have the sentry attack; what it points to is a Target.
inline constexpr long kAttackCall = 0x7a17;
// Its second argument.
enum : uint64_t {
  kAttackAll = 0,
  kAttackInt80 = 1,  // ends the sentry if its filter works
};

// Whom, and where the verdicts go.
struct Target {
  int32_t pid, tid;  // the bystander
  int32_t keeper, gofer;
  uint64_t secret;     // address in the bystander of kSecretSize bytes
  uint16_t udp_port;   // on 127.0.0.1, the bystander's
  char file[100];      // that only the bystander's user may read
  char stream[100];    // a listening socket's path
  char datagram[100];  // a datagram socket's path
  char abstract[32];   // the same, an abstract name
  uint64_t report;     // the guest's buffer
  uint64_t report_size;
};
inline constexpr int kSecretSize = 32;
// A real-time signal: each one counts.
inline constexpr int kQueued = 40;

// The list of verdicts, a line each: "NAME filter" or "NAME RESULT".
struct Report {
  char text[200'000];
  int used = 0;
  void add(const char* name, const char* verdict) {
    used +=
        snprintf(text + used, sizeof text - static_cast<size_t>(used), "%s %s\n", name, verdict);
    if (used > static_cast<int>(sizeof text) - 200) used = static_cast<int>(sizeof text) - 200;
  }
};

// Catches what the filter refuses: the call gives kRefused and goes on.
inline constexpr long kRefused = -0x5359;
void on_refused(void* context);  // from a SIGSYS handler
// This thread attacks right now: a SIGSYS is the answer, not a bug.
extern thread_local bool attacking;

// `confined`: with what would do harm if it worked, and every number there is.
void run_attacks(const Target& target, bool confined, Report& report);

}  // namespace posture
