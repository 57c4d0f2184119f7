// Making, removing and renaming names.
#include "sentry/vfs/ops.h"

#include <linux/capability.h>
#include <linux/fs.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include "sentry/vfs/notify.h"
#include "sentry/vfs/permissions.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#define RENAME_WHITEOUT 4
#endif

namespace uks {
namespace {

// The dentry that a change of `name` made true.
void enter(const Ref<Dentry>& dir, std::string_view name, Ref<Inode> inode) {
  ++dir->changes;
  MonotonicNs ttl = dir->inode()->fs().name_ttl();
  if (auto old = dir->cached_child(name)) old->unhash();
  if (ttl == 0) return;
  auto child = Dentry::make(dir, name, std::move(inode));
  dir->hash(child, ttl == FileSystem::kForever ? ttl : monotonic_now() + ttl);
}

void created(const Path& dir, std::string_view name, Ref<Inode> inode) {
  const bool is_dir = inode->is_dir();
  enter(dir.dentry, name, std::move(inode));
  notify::name(*dir.dentry, name, is_dir, IN_CREATE);
}

// `name` is gone; `victim` was it.
void removed(const Ref<Dentry>& dir, const Ref<Dentry>& victim) {
  ++dir->changes;
  // Somebody may have looked it up anew while the file system was at work.
  if (auto again = dir->cached_child(victim->name()); again && again != victim)
    again->mark_deleted();
  victim->mark_deleted();
  enter(dir, victim->name(), {});
  notify::removed(*dir, victim);
}

// A place where a new name may be made. EEXIST first, as Linux answers.
Result<LastName> place_for_new(Task& task, const Path& base, std::string_view path,
                               bool directory) {
  LastName last = TRY(resolve_parent(task, base, path));
  if (last.kind != LastName::Kind::kNormal) return Err(EEXIST);
  auto dentry = TRY(lookup_dentry(task, last.parent.dentry, last.name));
  if (!dentry->negative()) return Err(EEXIST);
  // A name with a slash behind it can only become a directory.
  if (last.trailing_slash && !directory) return Err(ENOENT);
  TRY(want_write(last.parent));
  TRY(check_place(task, last.parent, kMayWrite | kMayExec));
  if (last.parent.dentry->deleted()) return Err(ENOENT);
  last.child = {last.parent.mount, std::move(dentry)};
  return last;
}

// may_delete() of fs/namei.c.
Result<void> may_remove(Task& task, const Path& dir, const Ref<Dentry>& victim, bool as_directory) {
  Attr dir_attr = TRY(dir.inode()->getattr());
  TRY(check_access(task.creds(), dir_attr, kMayWrite | kMayExec));
  Attr attr = TRY(victim->inode()->getattr());
  TRY(check_sticky(task.creds(), dir_attr, attr));
  if (as_directory) {
    if (!attr.is_dir()) return Err(ENOTDIR);
  } else if (attr.is_dir()) {
    return Err(EISDIR);
  }
  return {};
}

bool is_mountpoint(const Dentry& d) { return d.mount_count > 0; }

}  // namespace

Result<void> want_write(const Path& place) {
  if (place.mount && place.mount->read_only()) return Err(EROFS);
  return {};
}

Result<void> check_place(Task& task, const Path& place, int mask) {
  Attr attr = TRY(place.inode()->getattr());
  if ((mask & kMayWrite) && (attr.is_regular() || attr.is_dir() || attr.is_link()))
    TRY(want_write(place));
  if ((mask & kMayExec) && attr.is_regular() && place.mount && (place.mount->flags() & MS_NOEXEC))
    return Err(EACCES);
  return check_access(task.creds(), attr, mask);
}

Result<void> make_node(Task& task, const Path& base, std::string_view path, uint32_t mode,
                       uint64_t rdev) {
  switch (mode & S_IFMT) {
    case 0:
      mode |= S_IFREG;
      break;
    case S_IFREG:
    case S_IFIFO:
    case S_IFSOCK:
      break;
    case S_IFCHR:
    case S_IFBLK:
      // Devices are the host's; whiteouts (char 0:0) are the overlay's own.
      return Err(EPERM);
    case S_IFDIR:
      return Err(EPERM);
    default:
      return Err(EINVAL);
  }
  LastName last = TRY(place_for_new(task, base, path, false));
  Attr dir = TRY(last.parent.inode()->getattr());
  NewNode node = new_node(task.creds(), dir, (mode & S_IFMT) | (mode & 07777 & ~task.fs().umask));
  node.rdev = rdev;
  auto inode = TRY(last.parent.inode()->mknod(last.name, node));
  created(last.parent, last.name, std::move(inode));
  return {};
}

Result<Path> make_socket_node(Task& task, std::string_view path, uint32_t mode) {
  Path base = TRY(base_of(task, AT_FDCWD, path));
  auto last = place_for_new(task, base, path, false);
  if (!last) return Err(last.error() == EEXIST ? EADDRINUSE : last.error().value);
  Attr dir = TRY(last->parent.inode()->getattr());
  NewNode node = new_node(task.creds(), dir, S_IFSOCK | (mode & 07777 & ~task.fs().umask));
  auto inode = last->parent.inode()->mknod(last->name, node);
  if (!inode) return Err(inode.error() == EEXIST ? EADDRINUSE : inode.error().value);
  created(last->parent, last->name, std::move(*inode));
  auto dentry = TRY(lookup_dentry(task, last->parent.dentry, last->name));
  if (dentry->negative()) return Err(ENOENT);
  return Path{last->parent.mount, std::move(dentry)};
}

Result<void> make_directory(Task& task, const Path& base, std::string_view path, uint32_t mode) {
  LastName last = TRY(place_for_new(task, base, path, true));
  Attr dir = TRY(last.parent.inode()->getattr());
  NewNode node = new_node(task.creds(), dir, S_IFDIR | (mode & 01777 & ~task.fs().umask));
  auto inode = TRY(last.parent.inode()->mkdir(last.name, node));
  created(last.parent, last.name, std::move(inode));
  return {};
}

Result<void> make_symlink(Task& task, std::string_view target, const Path& base,
                          std::string_view path) {
  if (target.empty()) return Err(ENOENT);
  LastName last = TRY(place_for_new(task, base, path, false));
  Attr dir = TRY(last.parent.inode()->getattr());
  NewNode node = new_node(task.creds(), dir, S_IFLNK | 0777);
  auto inode = TRY(last.parent.inode()->symlink(last.name, target, node));
  created(last.parent, last.name, std::move(inode));
  return {};
}

Result<void> make_link(Task& task, const Path& old_place, const Path& base, std::string_view path) {
  LastName last = TRY(place_for_new(task, base, path, false));
  if (old_place.mount != last.parent.mount) return Err(EXDEV);
  Ref<Inode> inode = old_place.dentry->inode_ref();
  Attr attr = TRY(inode->getattr());
  if (attr.is_dir()) return Err(EPERM);
  if (attr.nlink == 0 && !inode->is_linkable) return Err(ENOENT);
  // protected_hardlinks: not to what one could not write anyway.
  if (!is_owner_or_capable(task.creds(), attr)) {
    bool safe = attr.is_regular() && !(attr.mode & S_ISUID) &&
                (attr.mode & (S_ISGID | S_IXGRP)) != (S_ISGID | S_IXGRP) &&
                check_access(task.creds(), attr, kMayRead | kMayWrite);
    if (!safe) return Err(EPERM);
  }
  TRY(last.parent.inode()->link(last.name, *inode));
  notify::inode(*inode, IN_ATTRIB);
  created(last.parent, last.name, std::move(inode));
  return {};
}

Result<void> remove_file(Task& task, const Path& base, std::string_view path) {
  LastName last = TRY(resolve_parent(task, base, path));
  if (last.kind != LastName::Kind::kNormal) return Err(EISDIR);
  auto victim = TRY(lookup_dentry(task, last.parent.dentry, last.name));
  if (victim->negative()) return Err(ENOENT);
  if (last.trailing_slash) return Err(victim->inode()->is_dir() ? EISDIR : ENOTDIR);
  TRY(want_write(last.parent));
  TRY(may_remove(task, last.parent, victim, false));
  if (is_mountpoint(*victim)) return Err(EBUSY);
  TRY(last.parent.inode()->unlink(last.name, *victim->inode()));
  removed(last.parent.dentry, victim);
  return {};
}

Result<void> remove_directory(Task& task, const Path& base, std::string_view path) {
  LastName last = TRY(resolve_parent(task, base, path));
  switch (last.kind) {
    case LastName::Kind::kDotDot:
      return Err(ENOTEMPTY);
    case LastName::Kind::kDot:
      return Err(EINVAL);
    case LastName::Kind::kRoot:
      return Err(EBUSY);
    case LastName::Kind::kNormal:
      break;
  }
  auto victim = TRY(lookup_dentry(task, last.parent.dentry, last.name));
  if (victim->negative()) return Err(ENOENT);
  TRY(want_write(last.parent));
  TRY(may_remove(task, last.parent, victim, true));
  if (victim->pinned()) return Err(EBUSY);
  TRY(last.parent.inode()->rmdir(last.name, *victim->inode()));
  removed(last.parent.dentry, victim);
  return {};
}

Result<void> rename_file(Task& task, const Path& old_base, std::string_view old_path,
                         const Path& new_base, std::string_view new_path, unsigned flags) {
  if (flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) return Err(EINVAL);
  if ((flags & RENAME_EXCHANGE) && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT)))
    return Err(EINVAL);
  // A whiteout is a device node, which guests may not make.
  if (flags & RENAME_WHITEOUT) return Err(EPERM);
  LastName from = TRY(resolve_parent(task, old_base, old_path));
  LastName to = TRY(resolve_parent(task, new_base, new_path));
  if (from.parent.mount != to.parent.mount) return Err(EXDEV);
  if (from.kind != LastName::Kind::kNormal) return Err(EBUSY);
  if (to.kind != LastName::Kind::kNormal) return Err((flags & RENAME_NOREPLACE) ? EEXIST : EBUSY);
  TRY(want_write(from.parent));
  auto source = TRY(lookup_dentry(task, from.parent.dentry, from.name));
  if (source->negative()) return Err(ENOENT);
  auto target = TRY(lookup_dentry(task, to.parent.dentry, to.name));
  bool exchange = flags & RENAME_EXCHANGE;
  if ((flags & RENAME_NOREPLACE) && !target->negative()) return Err(EEXIST);
  if (exchange && target->negative()) return Err(ENOENT);
  bool source_dir = source->inode()->is_dir();
  if (exchange) {
    if (!target->inode()->is_dir() && to.trailing_slash) return Err(ENOTDIR);
  }
  if (!source_dir) {
    if (from.trailing_slash) return Err(ENOTDIR);
    if (!exchange && to.trailing_slash) return Err(ENOTDIR);
  }
  if (source->is_ancestor_of(*to.parent.dentry)) return Err(EINVAL);
  if (!target->negative() && target->is_ancestor_of(*from.parent.dentry))
    return Err(exchange ? EINVAL : ENOTEMPTY);
  if (source == target || (!target->negative() && source->inode() == target->inode())) return {};

  Attr from_dir = TRY(from.parent.inode()->getattr());
  Attr source_attr = TRY(source->inode()->getattr());
  TRY(check_access(task.creds(), from_dir, kMayWrite | kMayExec));
  TRY(check_sticky(task.creds(), from_dir, source_attr));
  if (target->negative()) {
    TRY(check_place(task, to.parent, kMayWrite | kMayExec));
    if (to.parent.dentry->deleted()) return Err(ENOENT);
  } else {
    Attr to_dir = TRY(to.parent.inode()->getattr());
    TRY(check_access(task.creds(), to_dir, kMayWrite | kMayExec));
    TRY(check_sticky(task.creds(), to_dir, TRY(target->inode()->getattr())));
    if (!exchange) {
      if (source_dir && !target->inode()->is_dir()) return Err(ENOTDIR);
      if (!source_dir && target->inode()->is_dir()) return Err(EISDIR);
    }
  }
  if (from.parent.dentry != to.parent.dentry) {
    // Its ".." changes.
    if (source_dir) TRY(check_access(task.creds(), source_attr, kMayWrite));
    if (exchange && target->inode()->is_dir()) {
      TRY(check_access(task.creds(), TRY(target->inode()->getattr()), kMayWrite));
    }
  }
  if (source->pinned() || is_mountpoint(*source)) return Err(EBUSY);
  if (!target->negative() && (target->pinned() || is_mountpoint(*target))) return Err(EBUSY);

  TRY(from.parent.inode()->rename(from.name, *source->inode(), *to.parent.inode(), to.name,
                                  target->inode(), flags));

  ++from.parent.dentry->changes;
  ++to.parent.dentry->changes;
  MonotonicNs ttl = from.parent.inode()->fs().name_ttl();
  MonotonicNs until = ttl == FileSystem::kForever ? ttl : monotonic_now() + ttl;
  if (exchange) {
    source->unhash();
    target->move_to(from.parent.dentry, from.name, until);
    source->move_to(to.parent.dentry, to.name, until);
    notify::moved(*from.parent.dentry, from.name, *to.parent.dentry, to.name, *source->inode(), {});
    notify::moved(*to.parent.dentry, to.name, *from.parent.dentry, from.name, *target->inode(), {});
    return {};
  }
  if (!target->negative()) target->mark_deleted();
  if (auto other = to.parent.dentry->cached_child(to.name); other && other != source) {
    if (other->negative()) {
      other->unhash();
    } else {
      other->mark_deleted();
    }
  }
  source->move_to(to.parent.dentry, to.name, until);
  enter(from.parent.dentry, from.name, {});
  notify::moved(*from.parent.dentry, from.name, *to.parent.dentry, to.name, *source->inode(),
                target->negative() ? Ref<Dentry>() : target);
  return {};
}

}  // namespace uks
