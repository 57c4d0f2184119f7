// The bounded scan for hidden inodes.
#include "gofer/server/hidden_inodes.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <deque>

#include "gofer/server/directory.h"
#include "gofer/server/host_fs.h"
#include "platform/base/log.h"

namespace uks::gofer {

namespace {

constexpr size_t kMaxPending = 1024;  // directories that wait; each holds a descriptor

// Listings of the file system give the inode numbers that stat gives. Overlay file systems may not.
bool has_exact_entries(int fd) {
  struct statfs s;
  return ::fstatfs(fd, &s) == 0 && static_cast<uint32_t>(s.f_type) != OVERLAYFS_SUPER_MAGIC;
}

}  // namespace

bool HiddenInodes::contains(uint64_t dev, uint64_t ino) {
  std::call_once(once_, [this] { scan(); });
  return std::binary_search(inodes_.begin(), inodes_.end(), std::pair(dev, ino));
}

void HiddenInodes::scan() {
  for (Action action : {Action::kDeny, Action::kAbsent}) {
    scanned_ = 0;
    limit_ = action == Action::kDeny ? kMaxDenied : kMaxAbsent;
    for (size_t i = 0; i < rules_.rules().size(); ++i) {
      const Rule& rule = rules_.rules()[i];
      if (rule.action == action && rule.track && rules_.is_literal(i)) scan_rule(i);
    }
  }
  std::sort(inodes_.begin(), inodes_.end());
  if (truncated_) {
    LOG_INFO("there are many hidden files: other hard links of some are not recognised");
  }
}

void HiddenInodes::scan_rule(size_t rule) {
  std::string_view path = rules_.rules()[rule].path;
  while (!path.empty() && path[0] == '/') path.remove_prefix(1);
  auto root = open_path_beneath(host_root_.get(), path);
  if (!root) return;
  auto attr = stat_at(root->get(), "");
  if (!attr) return;
  ++scanned_;
  if (!attr->is_directory()) {
    inodes_.emplace_back(attr->dev, attr->ino);
    return;
  }
  // Breadth first: what lies high up is what a rule's author thought of.
  std::deque<Place> places;
  add_place(places, root->get(), ".", rules_.at(rules_.rules()[rule].path, Action::kRo), nullptr);
  while (!places.empty() && !(truncated_ && scanned_ >= limit_)) {
    Place place = std::move(places.front());
    places.pop_front();
    scan_directory(place, places);
  }
}

void HiddenInodes::add_place(std::deque<Place>& places, int dir, const char* name, RuleState rules,
                             const Place* parent) {
  auto fd = open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd) return;  // what the gofer cannot list, its guests cannot open either
  auto attr = stat_at(fd->get(), "");
  if (!attr) return;
  Place place{std::move(*fd), std::move(rules), attr->dev, true};
  if (parent && parent->dev == attr->dev) {
    place.exact_entries = parent->exact_entries;
  } else {
    if (is_kernel_interface(place.fd.get())) return;
    place.exact_entries = has_exact_entries(place.fd.get());
  }
  places.push_back(std::move(place));
}

void HiddenInodes::scan_directory(const Place& place, std::deque<Place>& places) {
  int dir = place.fd.get();
  auto entries = list_entries(dir, limit_ + 1);
  if (!entries) return;
  for (const RawEntry& entry : *entries) {
    RuleState child = rules_.child(place.rules, entry.name);
    if (child.action != Action::kDeny && child.action != Action::kAbsent) continue;
    if (scanned_ >= limit_) {
      truncated_ = true;
      return;
    }
    ++scanned_;
    bool directory = entry.type == DT_DIR;
    if (place.exact_entries && entry.type != DT_UNKNOWN) {
      if (!directory) inodes_.emplace_back(place.dev, entry.ino);
    } else {
      auto found = stat_at(dir, entry.name.c_str());
      if (!found) continue;
      directory = found->is_directory();
      if (!directory) inodes_.emplace_back(found->dev, found->ino);
    }
    if (!directory) continue;
    if (places.size() < kMaxPending) {
      add_place(places, dir, entry.name.c_str(), std::move(child), &place);
    } else {
      truncated_ = true;
    }
  }
}

}  // namespace uks::gofer
