// cmdline, environ, auxv, maps and smaps of a process: what its memory holds.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platform/platform.h"
#include "sentry/fs/proc/mapped_names.h"
#include "sentry/fs/proc/proc_fs.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/usermem/memory_access.h"

namespace uks {
namespace {

// More than ARG_MAX can be: 6 MiB, three quarters of the 8 MiB stack limit.
constexpr uint64_t kMaxStrings = 8 << 20;

Ref<AddressSpace> memory_of(const ProcTarget& target) {
  const Task* task = target.task();
  Ref<AddressSpace> mm = task ? task->mm : Ref<AddressSpace>();
  return mm && !mm->gone ? mm : Ref<AddressSpace>();
}

// [from, to) of the process's memory; empty if it cannot be read (programs may have unmapped it).
// Drops the kernel lock; the waiting is the reader's.
std::string read_range(Task& reader, const Ref<AddressSpace>& mm, uint64_t from, uint64_t to) {
  if (from == 0 || to <= from || to - from > kMaxStrings) return {};
  std::string text(to - from, '\0');
  MemoryAccess memory(reader.group(), mm);
  if (!memory.read(UserAddr{from}, text.data(), text.size())) return {};
  return text;
}

// A guest may have 65,530 mappings, whose text is megabytes: others get the kernel lock in between.
std::string name_in_pieces(const std::string& maps) {
  constexpr size_t kPiece = 16 << 10;
  std::string out;
  for (size_t at = 0; at < maps.size();) {
    const size_t last = maps.find('\n', at + kPiece);
    const size_t end = last == std::string::npos ? maps.size() : last + 1;
    out += name_mappings(maps.substr(at, end - at));
    at = end;
    if (at < maps.size()) yield_kernel_lock();
  }
  return out;
}

// "FROM-TO " in hexadecimal: sscanf(3) would be most of the time that smaps takes.
bool is_head(const char* line, unsigned long& from, unsigned long& to) {
  char* at = nullptr;
  from = strtoul(line, &at, 16);
  if (at == line || *at != '-') return false;
  const char* const second = at + 1;
  to = strtoul(second, &at, 16);
  return at != second && *at == ' ';
}

}  // namespace

// get_mm_cmdline(): programs change their title in place, beyond the arguments' end if need be.
Result<std::string> cmdline_text(const ProcTarget& target, Task& reader) {
  const Ref<AddressSpace> mm = memory_of(target);
  if (!mm) return std::string();
  std::string text = read_range(reader, mm, mm->arg_start, mm->arg_end);
  if (text.empty()) return target.group->command_line;
  if (text.back() != '\0' && mm->env_start == mm->arg_end) {
    text += read_range(reader, mm, mm->env_start, mm->env_end);
    text.resize(std::min(text.size(), strlen(text.c_str())));
  }
  return text;
}

Result<std::string> environ_text(const ProcTarget& target, Task& reader) {
  const Ref<AddressSpace> mm = memory_of(target);
  if (!mm) return std::string();
  std::string text = read_range(reader, mm, mm->env_start, mm->env_end);
  return text.empty() ? target.group->environment : text;
}

Result<std::string> auxv_text(const ProcTarget& target, Task&) {
  std::string out;
  for (const auto& [type, value] : target.group->auxv) {
    out.append(reinterpret_cast<const char*>(&type), sizeof type);
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return out;
}

Result<std::string> maps_text(const ProcTarget& target, Task&) {
  const Ref<AddressSpace> mm = memory_of(target);
  if (!mm) return std::string();
  Result<std::string> text = Err(ESRCH);
  {
    Unlocked unlocked;  // the keeper is asked
    text = read_maps(*mm);
  }
  // Ended meanwhile: as empty as a zombie's.
  if (!text) return std::string();
  return name_in_pieces(*text);
}

Result<std::string> smaps_text(const ProcTarget& target, Task&) {
  const Ref<AddressSpace> mm = memory_of(target);
  if (!mm) return std::string();
  Result<std::string> text = Err(ESRCH);
  {
    Unlocked unlocked;
    text = read_host_proc(*mm, "smaps");
  }
  if (!text) return std::string();
  // Each mapping starts with a line as in maps, then come "Name: value" lines.
  const uint64_t stub = mm->layout().base;
  std::string heads;
  std::vector<std::string_view> bodies;
  {
    Unlocked unlocked;
    bool hidden = true;
    for (size_t at = 0; at < text->size();) {
      const size_t end = std::min(text->find('\n', at), text->size() - 1) + 1;
      const std::string_view line = std::string_view(*text).substr(at, end - at);
      unsigned long from = 0, to = 0;
      if (is_head(text->c_str() + at, from, to)) {
        hidden = from >= stub && from < stub + UKS_STUB_REGION;
        if (!hidden) {
          heads += line;
          bodies.emplace_back(text->c_str() + end, 0);
        }
      } else if (!hidden) {
        bodies.back() = {bodies.back().data(), bodies.back().size() + line.size()};
      }
      at = end;
    }
  }
  const std::string named = name_in_pieces(heads);
  Unlocked unlocked;
  std::string out;
  size_t at = 0;
  for (const std::string_view body : bodies) {
    const size_t end = std::min(named.find('\n', at), named.size() - 1) + 1;
    out.append(named, at, end - at).append(body);
    at = end;
  }
  return out;
}

Result<std::string> smaps_rollup_text(const ProcTarget& target, Task& reader) {
  const std::string smaps = TRY(smaps_text(target, reader));
  Unlocked unlocked;
  return roll_up(smaps);
}

std::string roll_up(const std::string& smaps) {
  std::vector<std::pair<std::string, uint64_t>> sums;  // in the order of the first mapping, KiB
  unsigned long first = 0, last = 0;
  for (size_t at = 0; at < smaps.size();) {
    const size_t end = std::min(smaps.find('\n', at), smaps.size());
    const std::string line = smaps.substr(at, end - at);
    at = end + 1;
    unsigned long from = 0, to = 0, kib = 0;
    char key[32];
    if (sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      if (last == 0) first = from;
      last = to;
    } else if (sscanf(line.c_str(), "%31[^:]: %lu kB", key, &kib) == 2) {
      const std::string_view name = key;
      // What says nothing as a sum is not shown.
      if (name == "Size" || name == "KernelPageSize" || name == "MMUPageSize") continue;
      const auto it = std::ranges::find(sums, name, &std::pair<std::string, uint64_t>::first);
      if (it == sums.end()) {
        sums.emplace_back(name, kib);
      } else {
        it->second += kib;
      }
    }
  }
  if (last == 0) return {};
  std::string out = fmt::format("{:08x}-{:08x} ---p 00000000 00:00 0 ", first, last);
  out.resize(std::max<size_t>(73, out.size()), ' ');
  out += "[rollup]\n";
  for (const auto& [name, kib] : sums) out += fmt::format("{:<16}{:>8} kB\n", name + ":", kib);
  return out;
}

}  // namespace uks
