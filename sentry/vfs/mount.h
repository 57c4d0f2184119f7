// Mounts and mount namespaces: which tree covers which directory.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "sentry/vfs/dentry.h"

namespace uks {

class Mount : public RefCounted {
 public:
  Mount(Ref<FileSystem> fs, Ref<Dentry> root, unsigned long flags, std::string source)
      : fs_(std::move(fs)), root_(std::move(root)), flags_(flags), source_(std::move(source)) {}

  FileSystem& fs() const { return *fs_; }
  const Ref<Dentry>& root() const { return root_; }
  // MS_RDONLY, MS_NOEXEC, MS_NOSUID, MS_NODEV as in mount(2).
  unsigned long flags() const { return flags_; }
  bool read_only() const { return flags_ & 1; }
  const std::string& source() const { return source_; }
  int id() const { return id_; }
  // Where it is mounted; null for the namespace's root mount.
  const Ref<Mount>& parent() const { return parent_; }
  const Ref<Dentry>& mountpoint() const { return mountpoint_; }

 private:
  friend class MountNamespace;
  Ref<FileSystem> fs_;
  Ref<Dentry> root_;
  unsigned long flags_;
  std::string source_;
  int id_ = 0;
  Ref<Mount> parent_;
  Ref<Dentry> mountpoint_;
};

struct Path;

class MountNamespace : public RefCounted {
 public:
  // The first mount is the root.
  explicit MountNamespace(Ref<Mount> root);
  ~MountNamespace() override;

  const Ref<Mount>& root() const { return mounts_.front(); }
  // All mounts, in the order they were made.
  const std::vector<Ref<Mount>>& mounts() const { return mounts_; }
  // Covers the place `at` with `mount`. Pins the way to it.
  void add(const Path& at, Ref<Mount> mount);
  // The mount that covers exactly (mount, dentry), or null.
  Ref<Mount> covering(const Mount& mount, const Dentry& dentry) const;

 private:
  std::vector<Ref<Mount>> mounts_;
  std::map<std::pair<const Mount*, const Dentry*>, Mount*> covered_;
  int next_id_ = 20;  // as on a usual system: the first ids belong to the boot
};

}  // namespace uks
