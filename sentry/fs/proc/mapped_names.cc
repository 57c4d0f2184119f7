// Names of mapped files by host device and inode.
#include "sentry/fs/proc/mapped_names.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdio>
#include <list>
#include <string_view>
#include <unordered_map>

#include "sentry/task/task.h"
#include "sentry/vfs/file.h"
#include "sentry/vfs/fs_context.h"

namespace uks {
namespace {

struct HostId {
  uint64_t dev, ino;
  friend bool operator==(const HostId&, const HostId&) = default;
};
struct HostIdHash {
  size_t operator()(const HostId& id) const { return id.ino * 0x9e3779b97f4a7c15 ^ id.dev; }
};
struct Known {
  std::string name;
  std::list<HostId>::iterator age;
};

// About 200 bytes each. The oldest are forgotten.
constexpr size_t kMaxKnown = 8192;
constexpr std::string_view kDeleted = " (deleted)";

// All under the kernel lock.
class NameTable {
 public:
  void note(const HostId& id, std::string name) {
    auto [it, is_new] = known_.try_emplace(id);
    if (is_new) {
      it->second.age = ages_.insert(ages_.begin(), id);
    } else {
      ages_.splice(ages_.begin(), ages_, it->second.age);
    }
    it->second.name = std::move(name);
    by_inode_[id.ino] = id;
    if (known_.size() <= kMaxKnown) return;
    const HostId oldest = ages_.back();
    if (const auto last = by_inode_.find(oldest.ino);
        last != by_inode_.end() && last->second == oldest)
      by_inode_.erase(last);
    known_.erase(oldest);
    ages_.pop_back();
  }

  const std::string* find(const HostId& id, std::string_view host_name) const {
    if (const auto it = known_.find(id); it != known_.end()) return &it->second.name;
    // btrfs and overlayfs show another device in maps than in stat. The number and the last name
    // must do.
    const auto other = by_inode_.find(id.ino);
    if (other == by_inode_.end()) return nullptr;
    const std::string& name = known_.at(other->second).name;
    return last_part(name) == last_part(host_name) ? &name : nullptr;
  }

 private:
  static std::string_view last_part(std::string_view path) {
    if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
    return path.substr(path.rfind('/') + 1);
  }
  std::unordered_map<HostId, Known, HostIdHash> known_;
  std::unordered_map<uint64_t, HostId> by_inode_;
  std::list<HostId> ages_;  // young to old
};

NameTable& names() {
  static auto* const table = new NameTable;
  return *table;
}

std::string guest_name(std::string_view host_name, uint64_t dev, uint64_t ino) {
  // Made by the sentry itself: shared anonymous memory and /dev/zero look alike on Linux.
  if (host_name.starts_with("/memfd:uks-shared") || host_name.starts_with("/memfd:uks-zero"))
    return "/dev/zero (deleted)";
  if (const std::string* name = names().find({dev, ino}, host_name)) {
    // A memfd is always nameless to the host; the name of a host's file may be gone there.
    const bool gone = host_name.ends_with(kDeleted) && !host_name.starts_with("/memfd:") &&
                      !name->ends_with(kDeleted);
    return gone ? *name + std::string(kDeleted) : *name;
  }
  // The vdso and its kin are nobody's file.
  return host_name.starts_with('[') ? std::string(host_name) : std::string();
}

}  // namespace

void note_mapped_file(Task& task, const File& file, int host_fd) {
  struct stat st;
  if (fstat(host_fd, &st) != 0) return;
  // Places as the sandbox's first process sees them. The table keeps names, not places: those would
  // keep deleted files alive.
  const Ref<Mount>& top = task.fs().mounts->root();
  std::string name =
      file.path().mount ? path_string(file.path(), Path{top, top->root()}) : file.anonymous_name();
  // Directories can be nested deeper than a path can say; such a mapping stays nameless.
  if (name.size() >= 4096) name.clear();
  names().note({st.st_dev, st.st_ino}, std::move(name));
}

std::string name_mappings(const std::string& maps) {
  std::string out;
  out.reserve(maps.size());
  for (size_t at = 0; at < maps.size();) {
    const size_t end = std::min(maps.find('\n', at), maps.size());
    std::string line = maps.substr(at, end - at);
    at = end + 1;
    unsigned long from, to, offset, ino;
    unsigned major, minor;
    char perms[8];
    int name_at = 0;
    if (sscanf(line.c_str(), "%lx-%lx %7s %lx %x:%x %lu %n", &from, &to, perms, &offset, &major,
               &minor, &ino, &name_at) == 7 &&
        ino != 0) {
      const std::string host = static_cast<size_t>(name_at) < line.size()
                                   ? line.substr(static_cast<size_t>(name_at))
                                   : "";
      const std::string name = guest_name(host, makedev(major, minor), ino);
      line.resize(std::min(line.size(), static_cast<size_t>(name_at)));
      while (line.ends_with(' ')) line.pop_back();
      if (name.empty()) {
        line += ' ';
      } else {
        // show_map_vma() pads to column 73.
        line.resize(std::max<size_t>(73, line.size() + 1), ' ');
        for (const char c : name) line += c == '\n' ? "\\012" : std::string(1, c);
      }
    }
    out += line;
    out += '\n';
  }
  return out;
}

}  // namespace uks
