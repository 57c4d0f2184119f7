// The types of the generated system call table: what dispatch and the strace decoder know of a
// call.
#pragma once
#include <array>
#include <cstdint>

#include "platform/base/result.h"

namespace uks {

class Task;

// How an interrupted call continues (documents the handler's block(); see syscalls/table.def).
enum class RestartClass : uint8_t { kNone, kSys, kNoHand, kBlock };

// How an argument is shown by strace. Names are those of syscalls/table.def.
enum class ArgKind : uint8_t {
  kNone,
  kFd,
  kInt,
  kPid,
  kWhence,
  kClockId,
  kSignal,
  kOpenFlags,
  kUint,
  kMode,
  kUid,
  kGid,
  kSize,
  kUlong,
  kLong,
  kOff,
  kAddr,
  kPath,
  kStr,
  kStrVec,
  kIn,
  kOut,
  kInOut,
};

// The extent of a buffer argument: `scale` bytes for each unit of argument `length_arg`, or, where
// that is kConstantLength, `scale` bytes.
struct ArgExtent {
  static constexpr uint8_t kConstantLength = 0xff;
  uint8_t length_arg = kConstantLength;
  uint16_t scale = 0;
};

struct SyscallEntry {
  const char* name = nullptr;  // null: no such number
  // Decodes the registers and calls sys_NAME; null: ENOSYS.
  Result<int64_t> (*handler)(Task& task, const std::array<uint64_t, 6>& args) = nullptr;
  RestartClass restart = RestartClass::kNone;
  uint8_t argc = 0;
  std::array<ArgKind, 6> kinds{};
  std::array<ArgExtent, 6> extents{};
};

}  // namespace uks
