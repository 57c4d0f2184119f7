// Mount namespaces, and the names of places across mounts.
#include "sentry/vfs/mount.h"

#include <sys/sysmacros.h>
#include <algorithm>

#include "platform/base/check.h"
#include "sentry/vfs/path.h"

namespace uks {

MountNamespace::MountNamespace(Ref<Mount> root) {
  root->id_ = next_id_++;
  mounts_.push_back(std::move(root));
}

MountNamespace::~MountNamespace() {
  for (auto& m : mounts_) {
    if (!m->mountpoint_) continue;
    --m->mountpoint_->mount_count;
    for (Ref<Dentry> d = m->mountpoint_; d; d = d->parent()) d->unpin();
  }
}

void MountNamespace::add(const Path& at, Ref<Mount> mount) {
  mount->id_ = next_id_++;
  mount->parent_ = at.mount;
  mount->mountpoint_ = at.dentry;
  ++at.dentry->mount_count;
  for (Ref<Dentry> d = at.dentry; d; d = d->parent()) d->pin();
  covered_[{at.mount.get(), at.dentry.get()}] = mount.get();
  mounts_.push_back(std::move(mount));
}

Ref<Mount> MountNamespace::covering(const Mount& mount, const Dentry& dentry) const {
  if (dentry.mount_count == 0) return {};
  auto it = covered_.find({&mount, &dentry});
  return it == covered_.end() ? Ref<Mount>() : Ref<Mount>(it->second);
}

std::string path_string(const Path& path, const Path& root, bool& reachable, bool& deleted) {
  reachable = true;
  deleted = false;
  std::vector<std::string_view> names;
  Mount* mount = path.mount.get();
  const Dentry* d = path.dentry.get();
  deleted = d->deleted();
  size_t length = 0;
  while (!(mount == root.mount.get() && d == root.dentry.get())) {
    if (mount && d == mount->root().get()) {
      if (!mount->parent()) {
        reachable = false;
        break;
      }
      d = mount->mountpoint().get();
      mount = mount->parent().get();
      continue;
    }
    if (!d->parent()) {
      reachable = false;
      break;
    }
    names.push_back(d->name());
    length += d->name().size() + 1;
    d = d->parent().get();
  }
  std::string out;
  out.reserve(length + 1);
  for (auto it = names.rbegin(); it != names.rend(); ++it) {
    out += '/';
    out += *it;
  }
  if (out.empty()) out = "/";
  return out;
}

std::string path_string(const Path& path, const Path& root) {
  if (!path) return {};
  bool reachable, deleted;
  std::string s = path_string(path, root, reachable, deleted);
  if (!reachable) s = "(unreachable)" + s;
  if (deleted) s += " (deleted)";
  return s;
}

}  // namespace uks
