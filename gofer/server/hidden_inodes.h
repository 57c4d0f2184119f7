// Recognises hidden files by inode, so that another hard link does not show them.
#pragma once
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "gofer/server/rules.h"
#include "platform/base/unique_fd.h"

namespace uks::gofer {

// The files that deny and absent rules with literal paths name, and those in directories that they
// name. They are looked for when the first file with more than one link is opened: most sandboxes
// never open one, and start-up stays free of scans. A sandbox cannot change hidden files, so later
// is not too late.
class HiddenInodes {
 public:
  // Files and directories looked at for deny rules, and then for absent ones: these name big places
  // (a whole home directory) whose listing would take longer than a sandbox takes to start. What
  // lies beyond is known by path only. Higher directories come first.
  static constexpr size_t kMaxDenied = 10'000;
  static constexpr size_t kMaxAbsent = 2'000;

  // `host_root`: an open "/"; rule paths are looked up below it.
  HiddenInodes(const RuleSet& rules, UniqueFd host_root)
      : rules_(rules), host_root_(std::move(host_root)) {}

  bool contains(uint64_t dev, uint64_t ino);
  int root_fd() const { return host_root_.get(); }

 private:
  // A hidden directory whose listing is still to be read.
  struct Place {
    UniqueFd fd;
    RuleState rules;
    uint64_t dev;
    bool exact_entries;  // its listing gives the inode numbers that stat gives
  };
  void scan();
  void scan_rule(size_t rule);
  void add_place(std::deque<Place>& places, int dir, const char* name, RuleState rules,
                 const Place* parent);
  void scan_directory(const Place& place, std::deque<Place>& places);

  const RuleSet& rules_;
  UniqueFd host_root_;
  std::once_flag once_;
  std::vector<std::pair<uint64_t, uint64_t>> inodes_;  // sorted; not changed after scan()
  size_t scanned_ = 0;
  size_t limit_ = 0;
  bool truncated_ = false;
};

}  // namespace uks::gofer
