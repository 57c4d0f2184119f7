// The bounded scan for hidden inodes.
#include "gofer/server/hidden_inodes.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <deque>

#include "gofer/server/directory.h"
#include "gofer/server/host_fs.h"
#include "platform/base/log.h"

namespace uks::gofer {

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
    LOG_WARN("more than {} hidden files: other hard links of the rest are not recognised", kMaxScanned);
  }
}

void HiddenInodes::scan_rule(size_t rule) {
  std::string_view path = rules_.rules()[rule].path;
  while (!path.empty() && path[0] == '/') path.remove_prefix(1);
  struct Place {
    UniqueFd fd;
    RuleState rules;
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
  places.push_back({std::move(*root), std::move(state)});
  while (!places.empty()) {
    Place place = std::move(places.front());
    places.pop_front();
    auto dir = open_beneath(place.fd.get(), ".", O_RDONLY | O_DIRECTORY);
    if (!dir) continue;
    auto names = list_names(dir->get(), kMaxScanned);
    if (!names) continue;
    for (const std::string& name : *names) {
      RuleState child = rules_.child(place.rules, name);
      if (child.action != Action::kDeny && child.action != Action::kAbsent) continue;
      if (scanned_ >= kMaxScanned) {
        truncated_ = true;
        return;
      }
      ++scanned_;
      auto found = stat_at(dir->get(), name.c_str());
      if (!found) continue;
      if (!found->is_directory()) {
        inodes_.emplace(found->dev, found->ino);
      } else if (places.size() < 1024) {  // each holds a descriptor
        auto fd = open_beneath(dir->get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW);
        if (fd && !is_kernel_interface(fd->get())) places.push_back({std::move(*fd), std::move(child)});
      } else {
        truncated_ = true;
      }
    }
  }
}

}  // namespace uks::gofer
