// The host's file system as the gofer uses it: resolution that stays beneath a directory and
// follows no link, and attributes.
#pragma once
#include <linux/openat2.h>

#include <cstdint>
#include <string_view>

#include "gofer/proto/messages.h"
#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks::gofer {

// openat2(2) beneath `dir` with RESOLVE_BENEATH|NO_MAGICLINKS|NO_SYMLINKS; O_CLOEXEC is added. A
// link as the last component can be had with O_PATH|O_NOFOLLOW, else ELOOP.
Result<UniqueFd> open_beneath(int dir, const char* path, uint64_t flags, uint64_t mode = 0);

// An O_PATH descriptor of `path` beneath `dir`, however long the path is. "" is `dir` itself.
Result<UniqueFd> open_path_beneath(int dir, std::string_view path);

// statx(2) of `name` in `dir` (not following a link), or of `dir` itself with "". Attr::flags stays
// 0.
Result<Attr> stat_at(int dir, const char* name);

// The descriptor lies in a kernel interface (proc, sysfs, cgroup, debugfs …), not in a file system
// that holds files. Guests never get at those through the gofer: they describe and control the
// host.
bool is_kernel_interface(int fd);

// All changes to files there go through this kernel: a local file system, not one whose files
// others change as well (network, FUSE, a hypervisor's shares).
bool is_changed_here_only(int fd);

}  // namespace uks::gofer
