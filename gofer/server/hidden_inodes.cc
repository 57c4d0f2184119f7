// The bounded scan for hidden inodes.
#include "gofer/server/hidden_inodes.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <deque>

#include "gofer/server/directory.h"
#include "gofer/server/host_fs.h"
#include "platform/base/log.h"

namespace uks::gofer {

namespace {

constexpr size_t kMaxPending = 1024;

// Listings of the file system give the inode numbers that stat gives. Overlay file systems may not.
bool has_exact_entries(int fd) {
  struct statfs s;
  return ::fstatfs(fd, &s) == 0 && static_cast<uint32_t>(s.f_type) != OVERLAYFS_SUPER_MAGIC;
}

}  // namespace

bool HiddenInodes::contains(uint64_t dev, uint64_t ino) {
  std::call_once(once_, [this] { scan(); });
  return inodes_.contains({dev, ino});
}

void HiddenInodes::scan() {
  // Secrets (deny) before what is merely not shown, in case the bound is reached.
  for (Action action : {Action::kDeny, Action::kAbsent}) {
    for (size_t i = 0; i < rules_.rules().size(); ++i) {
      const Rule& rule = rules_.rules()[i];
      if (rule.action == action && rule.track && rules_.is_literal(i)) scan_rule(i);
    }
  }
  if (truncated_) {
    LOG_INFO("more than {} hidden files: other hard links of the rest are not recognised",
             kMaxScanned);
  }
}

void HiddenInodes::scan_rule(size_t rule) {
  std::string_view path = rules_.rules()[rule].path;
  while (!path.empty() && path[0] == '/') path.remove_prefix(1);
  struct Place {
    UniqueFd fd;
    RuleState rules;
    bool exact_entries;
  };
  auto root = open_path_beneath(host_root_.get(), path);
  if (!root) return;
  std::deque<Place> places;  // breadth first: what lies high up is what a rule's author thought of
  RuleState state = rules_.at(rules_.rules()[rule].path, Action::kRo);
  auto attr = stat_at(root->get(), "");
  if (!attr) return;
  ++scanned_;
  if (!attr->is_directory()) {
    inodes_.emplace(attr->dev, attr->ino);
    return;
  }
  if (is_kernel_interface(root->get())) return;
  bool exact_entries = has_exact_entries(root->get());
  places.push_back({std::move(*root), std::move(state), exact_entries});
  while (!places.empty()) {
    Place place = std::move(places.front());
    places.pop_front();
    auto dir = open_beneath(place.fd.get(), ".", O_RDONLY | O_DIRECTORY);
    if (!dir) continue;
    auto dir_attr = stat_at(dir->get(), "");
    auto entries = list_entries(dir->get(), kMaxScanned + 1);
    if (!dir_attr || !entries) continue;
    for (const RawEntry& entry : *entries) {
      RuleState child = rules_.child(place.rules, entry.name);
      if (child.action != Action::kDeny && child.action != Action::kAbsent) continue;
      if (scanned_ >= kMaxScanned) {
        truncated_ = true;
        return;
      }
      ++scanned_;
      bool directory = entry.type == DT_DIR;
      if (place.exact_entries && entry.type != DT_UNKNOWN) {
        if (!directory) inodes_.emplace(dir_attr->dev, entry.ino);
      } else {
        auto found = stat_at(dir->get(), entry.name.c_str());
        if (!found) continue;
        directory = found->is_directory();
        if (!directory) inodes_.emplace(found->dev, found->ino);
      }
      if (!directory) continue;
      if (places.size() >= kMaxPending) {  // each holds a descriptor
        truncated_ = true;
        continue;
      }
      auto fd = open_beneath(dir->get(), entry.name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW);
      if (!fd || is_kernel_interface(fd->get())) continue;
      places.push_back({std::move(*fd), std::move(child), false});
      places.back().exact_entries = has_exact_entries(places.back().fd.get());
    }
  }
}

}  // namespace uks::gofer
