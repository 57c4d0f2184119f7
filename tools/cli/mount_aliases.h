// Other names that the host's mounts give to a path: a hidden place has to be hidden there as well.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace uks::cli {

// A line of /proc/PID/mountinfo, as far as it matters here.
struct HostMount {
  std::string device;  // major:minor
  std::string root;    // the directory of the file system that is mounted
  std::string target;  // where
  bool alone = false;  // no other line has this device
};

// Well-formed lines in their order; at most 65,536.
std::vector<HostMount> parse_mountinfo(std::string_view text);

// Every other path by which a mount shows `path` (absolute, clean, need not exist). `and_parts`:
// also the mount points that show only something below it. A file system is recognised by its
// device number: bind mounts, subvolumes and the deployments of ostree all share it.
std::vector<std::string> other_names(const std::vector<HostMount>& mounts, const std::string& path,
                                     bool and_parts);

}  // namespace uks::cli
