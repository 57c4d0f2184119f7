// Who a task is: virtual ids and capabilities. Never the host's.
#pragma once
#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace uks {

struct Credentials {
  uid_t ruid = 0, euid = 0, suid = 0, fsuid = 0;
  gid_t rgid = 0, egid = 0, sgid = 0, fsgid = 0;
  std::vector<gid_t> groups;  // supplementary, sorted
  uint64_t cap_permitted = 0, cap_effective = 0, cap_inheritable = 0, cap_bounding = 0,
           cap_ambient = 0;
  bool no_new_privs = false;
  uint32_t securebits = 0;

  bool has_cap(int cap) const { return (cap_effective >> cap) & 1; }
  bool in_group(gid_t gid) const {
    return gid == fsgid || std::binary_search(groups.begin(), groups.end(), gid);
  }
};

}  // namespace uks
