// Path: a place in the tree, and its name.
#pragma once
#include <string>

#include "platform/base/ref.h"
#include "sentry/vfs/dentry.h"
#include "sentry/vfs/mount.h"

namespace uks {

// A place in the tree: a dentry as seen through a mount.
struct Path {
  Ref<Mount> mount;
  Ref<Dentry> dentry;
  explicit operator bool() const { return static_cast<bool>(dentry); }
  Inode* inode() const { return dentry->inode(); }
  friend bool operator==(const Path&, const Path&) = default;
};

// The absolute path of a place as seen from `root`. A deleted file gets " (deleted)" appended, a
// place not below `root` "(unreachable)" in front, as d_path() does.
std::string path_string(const Path& path, const Path& root);
// As above, and whether it is reachable and not deleted (getcwd's ENOENT).
std::string path_string(const Path& path, const Path& root, bool& reachable, bool& deleted);

}  // namespace uks
