// The host's mount table, searched backwards: from a place in a file system to its names.
#include "tools/cli/mount_aliases.h"

#include <algorithm>
#include <map>

#include "tools/cli/paths.h"

namespace uks::cli {
namespace {

constexpr size_t kMaxMounts = 65536;

// Blanks, newlines and backslashes are octal there (mangle_path()).
std::string unescape(std::string_view text) {
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '7'; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      const int code = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
      out += static_cast<char>(code);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// What follows `dir` in `path`, which is at or below it: "" or "a/b".
std::string tail_below(const std::string& path, const std::string& dir) {
  std::string tail = path.substr(dir == "/" ? 0 : dir.size());
  if (tail.starts_with('/')) tail.erase(0, 1);
  return tail;
}

std::string append(const std::string& dir, const std::string& tail) {
  return tail.empty() ? dir : join(dir, tail);
}

}  // namespace

std::vector<HostMount> parse_mountinfo(std::string_view text) {
  std::vector<HostMount> mounts;
  while (!text.empty() && mounts.size() < kMaxMounts) {
    const size_t newline = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, newline);
    text.remove_prefix(std::min(newline + 1, text.size()));
    // id, parent, device, root, target, …
    std::string_view fields[5];
    size_t count = 0;
    while (count < 5 && !line.empty()) {
      const size_t blank = std::min(line.find(' '), line.size());
      fields[count++] = line.substr(0, blank);
      line.remove_prefix(std::min(blank + 1, line.size()));
    }
    // Roots of nsfs and the like are no paths: "net:[4026531840]".
    if (count < 5 || !fields[3].starts_with('/') || !fields[4].starts_with('/')) continue;
    mounts.push_back({std::string(fields[2]), unescape(fields[3]), unescape(fields[4])});
  }
  std::map<std::string_view, int> counts;
  for (const HostMount& m : mounts) counts[m.device]++;
  for (HostMount& m : mounts) m.alone = counts[m.device] == 1;
  return mounts;
}

std::vector<std::string> other_names(const std::vector<HostMount>& mounts, const std::string& path,
                                     bool and_parts) {
  const HostMount* home = nullptr;
  for (const HostMount& m : mounts) {
    // Of two at the same place the later one is on top.
    if (is_at_or_below(path, m.target) && (!home || m.target.size() >= home->target.size()))
      home = &m;
  }
  std::vector<std::string> names;
  // Of most file systems there is one mount: nothing of it has another name.
  if (!home || home->alone) return names;
  const std::string place = append(home->root, tail_below(path, home->target));
  for (const HostMount& m : mounts) {
    if (m.device != home->device) continue;
    std::string name;
    if (is_at_or_below(place, m.root)) {
      name = append(m.target, tail_below(place, m.root));
    } else if (and_parts && is_below(m.root, place)) {
      name = m.target;
    }
    // What lies below the path is hidden with it.
    if (!name.empty() && !is_at_or_below(name, path)) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace uks::cli
