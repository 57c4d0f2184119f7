// How long this thread waited for guest memory: what a guest can make long while the kernel lock is held.
#pragma once
#include <cstdint>

namespace uks {

// An access above this is slow: a page takes 1 us, a fault that reads the disk some 100 us.
inline constexpr int64_t kSlowAccessNs = 5'000'000;

// The sum of this thread's slow accesses since the last call, in nanoseconds.
int64_t take_slow_access_ns();

}  // namespace uks
