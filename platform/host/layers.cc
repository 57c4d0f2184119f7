#include "platform/host/layers.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "platform/base/unique_fd.h"
#include "platform/host/features.h"

namespace uks {
namespace {

bool write_text(const char* path, const char* text) {
  const UniqueFd fd(open(path, O_WRONLY | O_CLOEXEC));
  const auto length = static_cast<ssize_t>(strlen(text));
  return fd && write(fd.get(), text, strlen(text)) == length;
}

// The rule set of the newest interface, of which older kernels know the first fields.
struct Ruleset {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};

}  // namespace

void enter_namespaces(HostLayers& layers) {
  constexpr int kNamespaces = CLONE_NEWIPC | CLONE_NEWUTS;
  if (unshare(kNamespaces) == 0) {
    layers.ipc_and_uts_namespaces = true;
    return;
  }
  if (is_masked(Feature::kUserns)) return;
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER | kNamespaces) != 0) return;
  layers.user_namespace = layers.ipc_and_uts_namespaces = true;
  char map[64];
  snprintf(map, sizeof map, "%u %u 1\n", uid, uid);
  (void)write_text("/proc/self/uid_map", map);
  (void)write_text("/proc/self/setgroups", "deny");
  snprintf(map, sizeof map, "%u %u 1\n", gid, gid);
  (void)write_text("/proc/self/gid_map", map);
}

void enter_landlock(HostLayers& layers) {
  if (is_masked(Feature::kLandlock)) return;
  const long abi =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 1) return;
  // Numbers of accesses by interface version (landlock(7)); unknown bits would be EINVAL.
  constexpr unsigned kFileAccesses[] = {0, 13, 14, 15, 15, 16};
  Ruleset rules{};
  rules.handled_access_fs = (uint64_t{1} << kFileAccesses[abi < 5 ? abi : 5]) - 1;
  size_t size = sizeof rules.handled_access_fs;
  if (abi >= 4) {
    rules.handled_access_net = 3;  // bind and connect of TCP
    size = 2 * sizeof(uint64_t);
  }
  if (abi >= 6) {
    rules.scoped = 3;  // abstract sockets and signals
    size = sizeof rules;
  }
  const UniqueFd ruleset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &rules, size, 0)));
  if (!ruleset || syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return;
  layers.landlock_abi = static_cast<int>(abi);
}

}  // namespace uks
