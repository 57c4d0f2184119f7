// Opening files: do_open() of fs/namei.c.
#include <sys/mount.h>

#include "sentry/vfs/dir_file.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/notify.h"
#include "sentry/vfs/ops.h"
#include "sentry/vfs/permissions.h"

#ifndef __O_TMPFILE
#define __O_TMPFILE 020000000
#endif

namespace uks {

// sentry/fs/pipe.
Result<Ref<File>> open_fifo(Task& task, Path path, Ref<RefCounted>& state_slot, int flags);

namespace {

constexpr int kOpenOnly = O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC;

int access_mask(int flags) {
  switch (flags & O_ACCMODE) {
    case O_RDONLY:
      return kMayRead;
    case O_WRONLY:
      return kMayWrite;
    default:
      return kMayRead | kMayWrite;
  }
}

Result<void> may_open(Task& task, const Path& place, const Attr& attr, int flags, bool created) {
  int mask = access_mask(flags) | ((flags & O_TRUNC) ? kMayWrite : 0);
  if (attr.is_link()) return Err(ELOOP);
  if (attr.is_dir() && (mask & kMayWrite)) return Err(EISDIR);
  if ((S_ISCHR(attr.mode) || S_ISBLK(attr.mode)) && place.mount &&
      (place.mount->flags() & MS_NODEV))
    return Err(EACCES);
  if (created) return {};
  TRY(check_place(task, place, mask));
  if ((flags & O_NOATIME) && !is_owner_or_capable(task.creds(), attr)) return Err(EPERM);
  return {};
}

Result<void> cut(const Path& place, const Attr& attr) {
  SetAttr changes;
  changes.size = 0;
  if (attr.mode & (S_ISUID | S_ISGID)) changes.mode = mode_without_setid(attr.mode) & 07777;
  TRY(place.inode()->setattr(changes));
  notify::place(place, changes.mode ? IN_MODIFY | IN_ATTRIB : IN_MODIFY);
  return {};
}

Result<Ref<File>> open_object(Task& task, const Path& place, uint32_t mode, int flags) {
  Ref<Inode> inode = place.dentry->inode_ref();
  int kept = flags & ~kOpenOnly;
  switch (inode->type()) {
    case S_IFDIR:
      // Whatever a file system needs to do to let it be listed, it does here.
      if (auto own = inode->open(task, place, kept); own || !(own.error() == ENXIO)) return own;
      return make_ref<DirFile>(place, kept);
    case S_IFIFO:
      return open_fifo(task, place, inode->special, kept);
    case S_IFSOCK:
      return Err(ENXIO);
    default:
      break;
  }
  // The terminals of devpts do the rest themselves.
  if (S_ISCHR(mode) && std::string_view(inode->fs().type()) == "devpts") kept |= flags & O_NOCTTY;
  return inode->open(task, place, kept);
}

Result<Ref<File>> finish_open(Task& task, const Path& place, int flags, bool created) {
  Ref<Inode> inode = place.dentry->inode_ref();
  if (flags & O_PATH) {
    if ((flags & O_DIRECTORY) && !inode->is_dir()) return Err(ENOTDIR);
    return make_ref<File>(place, flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW));
  }
  if (inode->is_link()) return Err((flags & O_DIRECTORY) ? ENOTDIR : ELOOP);
  if ((flags & O_DIRECTORY) && !inode->is_dir()) return Err(ENOTDIR);
  Attr attr = TRY(inode->getattr());
  TRY(may_open(task, place, attr, flags, created));
  const bool writes = (access_mask(flags) & kMayWrite) || (flags & O_TRUNC);
  if (inode->is_regular() && writes && inode->executions > 0) return Err(ETXTBSY);
  auto file = TRY(open_object(task, place, attr.mode, flags));
  file->announce();
  if ((flags & O_TRUNC) && inode->is_regular() && !created) TRY(cut(place, attr));
  return file;
}

// Opening through /proc/PID/fd/N of an object without a place: an O_PATH-like re-open.
Result<Ref<File>> open_magic_object(Task& task, const Path& link, int flags) {
  if (flags & O_PATH) return Err(ENXIO);
  return link.inode()->open_magic(task, flags & ~kOpenOnly);
}

// A name that others make and remove all the time: Linux, which holds the directory, never has to
// give up.
constexpr int kCreateAttempts = 1000;

// The file that the cache (or a moment ago the host) had there went before it was open, and with it
// what is known of its name: as do_filp_open() with LOOKUP_REVAL.
bool gone_meanwhile(const Path& place, Errno error) {
  if (error != ESTALE && error != ENOENT) return false;
  const Ref<Dentry> parent = place.dentry->parent();
  if (!parent || place.dentry->pinned()) return false;
  ++parent->changes;
  parent->inode()->doubt(place.dentry->name());
  place.dentry->unhash();
  return true;
}

}  // namespace

Result<Ref<File>> open_place(Task& task, const Path& place, int flags) {
  return finish_open(task, place, flags, false);
}

Result<Ref<File>> open_file(Task& task, const Path& base, std::string_view path,
                            const OpenHow& how) {
  int flags = how.flags;
  if (flags & O_PATH) flags &= O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC;
  // Since Linux 6.4; before, a file was made and ENOTDIR said (build_open_flags()).
  if ((flags & O_CREAT) && (flags & O_DIRECTORY)) return Err(EINVAL);
  uint64_t walk = how.resolve;
  // glibc's __O_TMPFILE holds O_DIRECTORY, which alone is no request for a file.
  bool tmpfile = (flags & __O_TMPFILE & ~O_DIRECTORY) && !(flags & O_PATH);
  if (tmpfile) {
    if (!(flags & O_DIRECTORY) || (flags & O_CREAT) || !(access_mask(flags) & kMayWrite))
      return Err(EINVAL);
    Path dir = TRY(resolve(task, base, path, walk | kFollowLast | kMustBeDir));
    TRY(want_write(dir));
    TRY(check_place(task, dir, kMayWrite | kMayExec));
    Attr attr = TRY(dir.inode()->getattr());
    NewNode node = new_node(task.creds(), attr, S_IFREG | (how.mode & 07777 & ~task.fs().umask));
    auto inode = TRY(dir.inode()->create_unnamed(node));
    inode->is_linkable = !(flags & O_EXCL);
    auto dentry = Dentry::make(dir.dentry, "#" + std::to_string(TRY(inode->getattr()).ino), inode);
    dentry->mark_deleted();
    auto file = TRY(inode->open(task, Path{dir.mount, std::move(dentry)},
                                flags & ~(kOpenOnly | __O_TMPFILE | O_DIRECTORY)));
    file->announce();
    return file;
  }
  bool exclusive = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
  if (!(flags & O_NOFOLLOW) && !exclusive) walk |= kFollowLast;
  if (!(flags & O_CREAT)) {
    if (flags & O_DIRECTORY) walk |= kMustBeDir;
    // O_NOFOLLOW|O_DIRECTORY on a link is ENOTDIR, which kMustBeDir gives.
    for (bool again = false;; again = true) {
      Path place = TRY(resolve(task, base, path, walk));
      if (!place.mount) {
        // A magic link without a place (a pipe, a socket): the link itself re-opens it.
        Path link = TRY(resolve_magic(task, base, path, walk));
        return open_magic_object(task, link, flags);
      }
      auto file = finish_open(task, place, flags, false);
      if (!file && !again && gone_meanwhile(place, file.error())) continue;
      return file;
    }
  }
  for (int attempt = 0;; ++attempt) {
    LastName last = TRY(resolve_create(task, base, path, walk));
    if (!last.child.mount) {
      return open_magic_object(task, last.magic, flags);
    }
    if (last.kind != LastName::Kind::kNormal) return Err(exclusive ? EEXIST : EISDIR);
    // Before anything else (open_last_lookups()): no file can have such a name.
    if (last.trailing_slash) return Err(EISDIR);
    if (!last.child.dentry->negative()) {
      if (exclusive) return Err(EEXIST);
      if (last.child.inode()->is_dir()) return Err(EISDIR);
      auto file = finish_open(task, last.child, flags, false);
      if (!file && attempt < kCreateAttempts && gone_meanwhile(last.child, file.error())) continue;
      return file;
    }
    TRY(want_write(last.parent));
    TRY(check_place(task, last.parent, kMayWrite | kMayExec));
    if (last.parent.dentry->deleted()) return Err(ENOENT);
    Attr dir = TRY(last.parent.inode()->getattr());
    NewNode node = new_node(task.creds(), dir, S_IFREG | (how.mode & 07777 & ~task.fs().umask));
    auto inode = last.parent.inode()->mknod(last.name, node);
    if (!inode) {
      // Somebody else was quicker (or the cached absence was old).
      if (inode.error() == EEXIST && !exclusive && attempt < kCreateAttempts) {
        ++last.parent.dentry->changes;
        if (auto old = last.parent.dentry->cached_child(last.name); old && old->negative())
          old->unhash();
        continue;
      }
      return Err(inode.error());
    }
    Ref<Dentry> parent = last.parent.dentry;
    ++parent->changes;
    auto child = Dentry::make(parent, last.name, std::move(*inode));
    MonotonicNs ttl = parent->inode()->fs().name_ttl();
    if (ttl > 0) parent->hash(child, ttl == FileSystem::kForever ? ttl : monotonic_now() + ttl);
    notify::name(*parent, last.name, false, IN_CREATE);
    const Path place{last.parent.mount, std::move(child)};
    auto file = finish_open(task, place, flags, true);
    if (!file && attempt < kCreateAttempts && gone_meanwhile(place, file.error())) continue;
    return file;
  }
}

Result<Ref<File>> open_exec(Task& task, int dirfd, std::string_view path, int flags) {
  Path base = TRY(base_of(task, dirfd, path));
  if (path.empty() && !(flags & AT_EMPTY_PATH)) return Err(ENOENT);
  if (path.empty()) {
    Ref<File> file = TRY(task.fds().get(dirfd));
    if (!file->path()) {
      // A memfd has no place; the object itself is executed.
      Inode* inode = file->inode();
      if (!inode || !inode->is_regular()) return Err(EACCES);
      TRY(check_access(task.creds(), TRY(inode->getattr()), kMayExec));
      return file;
    }
  }
  uint64_t walk = (flags & AT_SYMLINK_NOFOLLOW) ? 0 : kFollowLast;
  Path place = TRY(resolve(task, base, path, walk | kEmptyPath));
  if (!place.mount) {
    Path link = TRY(resolve_magic(task, base, path, walk));
    Ref<File> file = TRY(link.inode()->open_magic(task, O_RDONLY));
    Inode* inode = file->inode();
    if (!inode || !inode->is_regular()) return Err(EACCES);
    TRY(check_access(task.creds(), TRY(inode->getattr()), kMayExec));
    return file;
  }
  Inode* inode = place.inode();
  if (inode->is_link()) return Err(ELOOP);
  if (!inode->is_regular()) return Err(EACCES);
  TRY(check_place(task, place, kMayExec));
  auto file = TRY(inode->open(task, place, O_RDONLY));
  file->announce();
  notify::place(place, IN_ACCESS);
  return file;
}

}  // namespace uks
