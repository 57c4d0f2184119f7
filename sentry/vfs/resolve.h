// Path resolution: from text to a place in the tree.
#pragma once
#include <linux/openat2.h>

#include <string>
#include <string_view>

#include "platform/base/result.h"
#include "sentry/task/task.h"
#include "sentry/vfs/path.h"

namespace uks {

class File;

// Flags of the walks below; RESOLVE_* of openat2(2) may be or-ed in.
inline constexpr uint64_t kFollowLast = 1ull << 32;   // the last component too, if it is a link
inline constexpr uint64_t kMustBeDir = 1ull << 33;    // ENOTDIR otherwise
inline constexpr uint64_t kEmptyPath = 1ull << 34;    // "" is the base itself (AT_EMPTY_PATH)
inline constexpr uint64_t kNoPermCheck = 1ull << 35;  // for the kernel's own walks

// A walk that stopped before (or at) its last component.
struct LastName {
  Path parent;       // a directory that may be searched
  std::string name;  // empty when the path was "/" or ended in "." or ".."
  bool trailing_slash = false;
  enum class Kind { kNormal, kRoot, kDot, kDotDot } kind = Kind::kNormal;
  Path magic;  // the last magic link followed: if the walk ended without a mount, it led there
  Path child;  // resolve_create only: where `name` leads; its dentry may be negative
};

// A magic link to an object without a place (a pipe, a socket) leads to a path whose mount is null.
// Errors: ENOENT ENOTDIR EACCES ELOOP ENAMETOOLONG EXDEV, and what the file system says.
Result<Path> resolve(Task& task, const Path& base, std::string_view path, uint64_t flags);
// The directory that holds the last component, which is not looked up.
Result<LastName> resolve_parent(Task& task, const Path& base, std::string_view path,
                                uint64_t flags = 0);
// For O_CREAT: as resolve_parent, but a link in the last place is followed (with kFollowLast) to
// the directory where its target is or would be; `child` is set.
Result<LastName> resolve_create(Task& task, const Path& base, std::string_view path,
                                uint64_t flags);

// The magic link that the walk of a placeless object (null mount) ended with: opening goes through
// it.
Result<Path> resolve_magic(Task& task, const Path& base, std::string_view path, uint64_t flags);

// One name in a directory; the dentry may be negative. Does not cross into mounts, checks nothing.
Result<Ref<Dentry>> lookup_dentry(Task& task, const Ref<Dentry>& dir, std::string_view name);
// Goes down into whatever is mounted there.
Path cross_mounts(Task& task, Path path);

// Where a relative `path` starts for openat-like calls: AT_FDCWD, or a descriptor. EBADF, ENOTDIR.
Result<Path> base_of(Task& task, int dirfd, std::string_view path);
// The place a description refers to, for AT_EMPTY_PATH and f*() calls. An anonymous object's has no
// mount.
Path place_of(const File& file);
// base_of + copy-in + resolve; with kEmptyPath an empty path yields the descriptor's own place.
Result<Path> resolve_at(Task& task, int dirfd, UserPath path, uint64_t flags);

}  // namespace uks
