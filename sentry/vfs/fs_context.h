// FsContext: root, working directory and umask, which threads of a process usually share.
#pragma once
#include "sentry/vfs/path.h"

namespace uks {

class FsContext : public RefCounted {
 public:
  FsContext(Ref<MountNamespace> mounts, Path root, Path cwd)
      : mounts(std::move(mounts)), root(std::move(root)), cwd(std::move(cwd)) {}
  // For fork without CLONE_FS, and unshare.
  Ref<FsContext> clone() const {
    auto copy = make_ref<FsContext>(mounts, root, cwd);
    copy->umask = umask;
    return copy;
  }

  Ref<MountNamespace> mounts;
  Path root;
  Path cwd;
  uint32_t umask = 022;
};

}  // namespace uks
