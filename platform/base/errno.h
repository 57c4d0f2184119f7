// Error numbers as values: Linux errnos plus the kernel-internal ERESTART* range.
#pragma once
#include <cerrno>
#include <compare>

namespace uks {

// A Linux errno, or one of the internal codes below that never reach a guest.
struct Errno {
  int value = 0;
  friend constexpr bool operator==(Errno, Errno) = default;
  friend constexpr bool operator==(Errno e, int v) { return e.value == v; }
};

// Internal codes, numbered as include/linux/errno.h numbers them where Linux has them. They may not
// leave syscalls/dispatch.cc.
inline constexpr int kRestartSys = 512;     // restart if SA_RESTART, else EINTR
inline constexpr int kRestartNoIntr = 513;  // always restart
inline constexpr int kRestartNoHand = 514;  // restart only if no handler ran
inline constexpr int kRestartBlock = 516;   // as NoHand; deadlines live in the call state
inline constexpr int kBlocked = 600;        // the handler armed a wait; run it again when woken
inline constexpr int kNoReply = 601;        // the handler replaced the task's reply (exit, exec)
inline constexpr int kFetchFirst = 602;     // guest bytes are not here yet (IoSource)

}  // namespace uks
