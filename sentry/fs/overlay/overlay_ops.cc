// Changes of the overlay: new names, removals with whiteouts, renames.
#include <mutex>

#include "sentry/fs/overlay/layers.h"
#include "sentry/fs/overlay/overlay.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

namespace uks {
namespace {

// Files that a rename of a lower directory may copy; more: EXDEV, and mv(1) copies by itself.
constexpr size_t kMaxTree = 50'000;

// attach() and detach() count directories' links as if they were new or gone.
void move_entry(TmpfsInode& from, std::string_view old_name, TmpfsInode& to,
                std::string_view new_name, const Ref<TmpfsInode>& inode) {
  uint32_t nlink = inode->attr().nlink;
  from.detach(old_name);
  (void)to.attach(new_name, inode);
  inode->attr().nlink = nlink;
}

}  // namespace

Result<void> OverlayInode::setattr(const SetAttr& changes) {
  Ref<OverlayInode> self(this);
  TRY(copy_up(changes.size ? *changes.size : UINT64_MAX));
  return upper_->setattr(changes);
}

Result<void> OverlayInode::setxattr(std::string_view name, std::string_view value, int flags) {
  if (is_private_xattr(name)) return Err(EPERM);
  Ref<OverlayInode> self(this);
  std::string key(name), data(value);
  TRY(copy_up());
  return upper_->setxattr(key, data, flags);
}

Result<void> OverlayInode::removexattr(std::string_view name) {
  if (is_private_xattr(name)) return Err(EPERM);
  Ref<OverlayInode> self(this);
  std::string key(name);
  TRY(real().getxattr(key));
  TRY(copy_up());
  return upper_->removexattr(key);
}

Result<bool> OverlayInode::lower_has(std::string_view name) {
  if (!merges()) return false;
  Ref<Inode> dir = lower_;
  return static_cast<bool>(TRY(dir->find(name)));
}

void OverlayInode::put_whiteout(std::string_view name) {
  auto mark = overlay().upper_fs_->make_inode({.mode = S_IFCHR, .uid = 0, .gid = 0, .rdev = 0});
  (void)upper_->attach(name, std::move(mark));
}

Result<void> OverlayInode::prepare_new(std::string_view name) {
  TRY(copy_up_locked(0));
  if (TmpfsInode* up = upper_->child(name)) {
    if (!is_whiteout(*up)) return Err(EEXIST);
    return {};
  }
  if (TRY(lower_has(name))) return Err(EEXIST);
  return {};
}

Result<Ref<Inode>> OverlayInode::make(std::string_view name, const NewNode& node,
                                      std::string_view target) {
  Ref<OverlayInode> self(this);
  std::string key(name), text(target);
  std::lock_guard lock(overlay().changing_);
  TRY(prepare_new(key));
  if (upper_->attr().nlink == 0) return Err(ENOENT);
  TRY(overlay().upper_fs_->check_inodes());
  auto inode = overlay().upper_fs_->make_inode(node);
  if (S_ISLNK(node.mode)) TRY(inode->set_link_target(std::move(text)));
  if (S_ISDIR(node.mode)) set_opaque(*inode);
  upper_->detach(key);  // a whiteout
  TRY(upper_->attach(key, inode));
  return Ref<Inode>(overlay().inode_for(std::move(inode), {}));
}

Result<Ref<Inode>> OverlayInode::mknod(std::string_view name, const NewNode& node) {
  return make(name, node, {});
}
Result<Ref<Inode>> OverlayInode::mkdir(std::string_view name, const NewNode& node) {
  return make(name, node, {});
}

Result<Ref<Inode>> OverlayInode::symlink(std::string_view name, std::string_view target,
                                         const NewNode& node) {
  if (target.size() >= 4096) return Err(ENAMETOOLONG);
  return make(name, node, target);
}

Result<Ref<Inode>> OverlayInode::create_unnamed(const NewNode& node) {
  TRY(overlay().upper_fs_->check_inodes());
  return Ref<Inode>(overlay().inode_for(overlay().upper_fs_->make_inode(node), {}));
}

Result<void> OverlayInode::link(std::string_view name, Inode& inode) {
  Ref<OverlayInode> self(this), target(static_cast<OverlayInode*>(&inode));
  std::string key(name);
  TRY(target->copy_up());
  std::lock_guard lock(overlay().changing_);
  TRY(target->copy_up_locked(UINT64_MAX));
  TRY(prepare_new(key));
  if (upper_->attr().nlink == 0) return Err(ENOENT);
  upper_->detach(key);
  return upper_->attach(key, target->upper_);
}

Result<void> OverlayInode::remove(std::string_view name, OverlayInode& child) {
  TRY(copy_up_locked(0));
  bool below = TRY(lower_has(name));
  TmpfsInode* up = upper_->child(name);
  if (up && is_whiteout(*up)) return Err(ENOENT);
  if (up ? up != child.upper_.get() : (!below || (child.upper_ && child.lower_links_ == 0)))
    return Err(ENOENT);
  if (below && !up) TRY(overlay().upper_fs_->check_inodes());
  if (up) {
    upper_->detach(name);
  } else if (child.upper_) {
    --child.lower_links_;
  } else if (child.parent_.get() == this && child.name_ == name) {
    // Still in use perhaps: a later change copies it up without a name.
    child.parent_ = {};
  }
  if (below) put_whiteout(name);
  if (child.upper_ && child.upper_->attr().nlink == 0 && child.lower_links_ == 0)
    std::erase_if(overlay().linked_, [&](const Ref<OverlayInode>& i) { return i.get() == &child; });
  return {};
}

Result<void> OverlayInode::unlink(std::string_view name, Inode& child) {
  Ref<OverlayInode> self(this), gone(static_cast<OverlayInode*>(&child));
  std::string key(name);
  std::lock_guard lock(overlay().changing_);
  return remove(key, *gone);
}

Result<bool> OverlayInode::is_empty() { return TRY(list()).empty(); }

Result<void> OverlayInode::rmdir(std::string_view name, Inode& child) {
  Ref<OverlayInode> self(this), gone(static_cast<OverlayInode*>(&child));
  std::string key(name);
  std::lock_guard lock(overlay().changing_);
  if (!TRY(gone->is_empty())) return Err(ENOTEMPTY);
  return remove(key, *gone);
}

Result<void> OverlayInode::rename(std::string_view old_name, Inode& source, Inode& new_dir,
                                  std::string_view new_name, Inode* target, unsigned flags) {
  Ref<OverlayInode> self(this), to(static_cast<OverlayInode*>(&new_dir)),
      moved(static_cast<OverlayInode*>(&source));
  Ref<OverlayInode> replaced(static_cast<OverlayInode*>(target));
  std::string from_name(old_name), to_name(new_name);
  bool exchange = flags & RENAME_EXCHANGE;
  moved->copy_files_ahead(kMaxTree);
  if (exchange) replaced->copy_files_ahead(kMaxTree);
  std::lock_guard lock(overlay().changing_);

  // Everything that may wait or fail comes first; then the upper layer changes in one go.
  auto bring_up = [](OverlayInode& inode) -> Result<void> {
    if (!inode.is_dir()) return inode.copy_up_locked(UINT64_MAX);
    // A directory that exists only above is moved as it is.
    if (inode.upper_ && !inode.merges()) return {};
    size_t budget = kMaxTree;
    return inode.copy_up_tree(budget);
  };
  TRY(bring_up(*moved));
  if (exchange) TRY(bring_up(*replaced));
  TRY(copy_up_locked(0));
  TRY(to->copy_up_locked(0));
  if (replaced && !exchange && replaced->is_dir() && !TRY(replaced->is_empty()))
    return Err(ENOTEMPTY);
  bool old_below = TRY(lower_has(from_name));
  bool new_below = TRY(to->lower_has(to_name));
  TmpfsInode* from_up = upper_->child(from_name);
  TmpfsInode* to_up = to->upper_->child(to_name);
  // A lower hard link whose other name was copied up: give this name an upper entry of its own.
  if (!from_up && old_below && moved->upper_) {
    TRY(upper_->attach(from_name, moved->upper_));
    if (moved->lower_links_ > 0) --moved->lower_links_;
    from_up = moved->upper_.get();
  }
  if (!from_up || from_up != moved->upper_.get()) return Err(ENOENT);
  if (to->upper_->attr().nlink == 0) return Err(ENOENT);
  if (to_up && is_whiteout(*to_up)) to_up = nullptr;
  if (!replaced && (to_up || (new_below && !to->upper_->child(to_name)))) return Err(EEXIST);
  if (replaced && to_up && to_up != replaced->upper_.get()) return Err(ENOENT);

  Ref<TmpfsInode> moving = moved->upper_;
  if (exchange) {
    Ref<TmpfsInode> other = replaced->upper_;
    if (!to_up) {
      TRY(to->upper_->attach(to_name, other));
      if (replaced->lower_links_ > 0) --replaced->lower_links_;
    }
    uint32_t a = moving->attr().nlink, b = other->attr().nlink;
    upper_->detach(from_name);
    to->upper_->detach(to_name);
    (void)to->upper_->attach(to_name, moving);
    (void)upper_->attach(from_name, other);
    moving->attr().nlink = a;
    other->attr().nlink = b;
    return {};
  }
  if (replaced && !to_up) {
    if (replaced->upper_) {
      if (replaced->lower_links_ > 0) --replaced->lower_links_;
    } else {
      replaced->parent_ = {};
    }
  }
  to->upper_->detach(to_name);  // the old target or a whiteout
  move_entry(*upper_, from_name, *to->upper_, to_name, moving);
  if (old_below) put_whiteout(from_name);
  return {};
}

}  // namespace uks
