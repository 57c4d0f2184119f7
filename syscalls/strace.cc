#include "syscalls/strace.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sentry/usermem/io.h"
#include "syscalls/dispatch.h"

namespace uks {
namespace {

constexpr size_t kShownBytes = 32;

std::string quote(std::string_view bytes, bool cut) {
  std::string out = "\"";
  for (const char c : bytes) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '"':
      case '\\':
        out += '\\';
        out += c;
        break;
      default:
        if (c >= 32 && c < 127)
          out += c;
        else
          out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  out += '"';
  if (cut) out += "...";
  return out;
}

std::string show_bytes(Task& task, uint64_t addr, uint64_t length) {
  char bytes[kShownBytes];
  const uint64_t n = std::min<uint64_t>(length, kShownBytes);
  if (n == 0 || !task.copy_in({addr}, bytes, n)) return fmt::format("{:#x}", addr);
  return quote({bytes, n}, length > n);
}

std::string show_argument(Task& task, const SyscallEntry& entry, size_t i) {
  const uint64_t value = task.syscall_args[i];
  switch (entry.kinds[i]) {
    case ArgKind::kFd:
    case ArgKind::kInt:
    case ArgKind::kPid:
    case ArgKind::kWhence:
    case ArgKind::kClockId:
    case ArgKind::kSignal:
      if (entry.kinds[i] == ArgKind::kFd && static_cast<int>(value) == -100) return "AT_FDCWD";
      return fmt::format("{}", static_cast<int>(value));
    case ArgKind::kUint:
    case ArgKind::kUid:
    case ArgKind::kGid:
      return fmt::format("{}", static_cast<uint32_t>(value));
    case ArgKind::kMode:
      return fmt::format("{:#o}", static_cast<uint32_t>(value));
    case ArgKind::kSize:
    case ArgKind::kLong:
    case ArgKind::kOff:
      return fmt::format("{}", static_cast<int64_t>(value));
    case ArgKind::kPath:
    case ArgKind::kStr: {
      if (!value) return "NULL";
      const auto text = task.copy_in_string({value}, 4096);
      return text ? quote(*text, false) : fmt::format("{:#x}", value);
    }
    case ArgKind::kIn: {
      if (!value) return "NULL";
      const ArgExtent extent = entry.extents[i];
      if (extent.length_arg == ArgExtent::kConstantLength) return fmt::format("{:#x}", value);
      return show_bytes(task, value, task.syscall_args[extent.length_arg] * extent.scale);
    }
    default:
      return value ? fmt::format("{:#x}", value) : "NULL";
  }
}

}  // namespace

void StraceWriter::on_call(Task& task, const Result<int64_t>& result) {
  const SyscallEntry* entry = find_syscall(task.syscall_nr);
  std::string line = fmt::format("[{}] {}(", task.tid(),
                                 entry ? entry->name : fmt::format("syscall_{}", task.syscall_nr));
  for (size_t i = 0; entry && i < entry->argc; i++) {
    if (i) line += ", ";
    line += show_argument(task, *entry, i);
  }
  if (result) {
    const bool pointer = task.syscall_nr == SYS_mmap || task.syscall_nr == SYS_brk;
    // A mapping's address is chosen when the stub makes it, after this line.
    if (task.syscall_nr == SYS_mmap && *result == 0)
      line += ") = ?\n";
    else if (pointer)
      line += fmt::format(") = {:#x}\n", static_cast<uint64_t>(*result));
    else
      line += fmt::format(") = {}\n", *result);
  } else if (result.error() == kNoReply) {
    line += ") ...\n";
  } else if (result.error().value >= kRestartSys) {
    line += ") = ? ERESTART\n";
  } else {
    const char* name = strerrorname_np(result.error().value);
    line +=
        fmt::format(") = -1 {} ({})\n", name ? name : "?", strerrordesc_np(result.error().value));
  }
  (void)!write(fd_.get(), line.data(), line.size());
}

}  // namespace uks
