// What a sandbox's sentry holds, measured from outside, where a guest cannot see: before a case and
// after it.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace hostile {

struct Holdings {
  uint64_t threads = 0;
  uint64_t processes = 0;                       // the sentry's children: zygotes, pool, guests
  std::map<std::string, uint64_t> descriptors;  // by kind
  uint64_t windows = 0;                         // mapped memfds
  // Memory in KiB: the sentry's own; mapped from memfds; all pages of its memfds, mapped or not.
  uint64_t anonymous = 0, shared = 0, in_memfds = 0;
};

// Runs `uks exec` with CASE in it, as `program --rounds CASE`, and compares. 0: the guest was
// content and the sentry returned to its base line. `rounds`: at least so many, or as many as fit
// some 0.6 s.
int run_outside(const char* uks, const char* program, const char* name, unsigned rounds);

// What the guest tells us, a line each, and waits for a line in answer.
inline constexpr char kBefore[] =
    "measure before";  // the bystander is up and rests; nothing hostile ran
inline constexpr char kBase[] = "measure base";    // the same after a first round
inline constexpr char kAfter[] = "measure after";  // ... and after the other rounds

}  // namespace hostile
