// Path walks, as link_path_walk() in fs/namei.c defines them.
#include "sentry/vfs/resolve.h"

#include <fcntl.h>
#include <limits.h>

#include <array>

#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"
#include "sentry/vfs/permissions.h"

namespace uks {
namespace {

// Whether a cached name still holds, without asking the file system.
bool is_believed(const Dentry& dir, const Dentry& child) {
  const MonotonicNs until = child.valid_until();
  if (child.pinned() || until == FileSystem::kForever) return true;
  const Inode& inode = *dir.inode();
  return until >= monotonic_now() && until - inode.fs().name_ttl() > inode.names_doubted;
}

constexpr int kMaxLinks = 40;
constexpr size_t kPrefetch = 16;

enum class Stop { kNever, kAtParent, kForCreate };

class Walker {
 public:
  Walker(Task& task, const Path& base, uint64_t flags)
      : task_(task), mounts_(task.fs().mounts), root_(task.fs().root), base_(base), flags_(flags) {
    if (flags_ & (RESOLVE_IN_ROOT | RESOLVE_BENEATH)) root_ = base;
  }

  Result<LastName> walk(std::string_view path, Stop stop);

 private:
  Result<void> start(std::string_view path);
  Result<void> may_search() {
    if (flags_ & kNoPermCheck) return {};
    Attr attr = TRY(cur_.inode()->getattr());
    return check_access(task_.creds(), attr, kMayExec);
  }
  Result<void> dot_dot();
  // Whether the walk is still below where it began; for those that may not leave it.
  bool below_root() const;
  Result<void> cross();
  Result<Path> child(std::string_view name);
  void prefetch(std::string_view first);
  // Replaces the link just met by its target. `rest_` is what follows it.
  Result<void> follow(const Path& link);

  Task& task_;
  Ref<MountNamespace> mounts_;
  Path root_;
  Path base_;
  uint64_t flags_;
  Path cur_;
  Path magic_;
  std::string text_;
  size_t at_ = 0;
  int links_ = 0;
};

Result<void> Walker::start(std::string_view path) {
  text_ = path;
  at_ = 0;
  if (!text_.empty() && text_[0] == '/') {
    if (flags_ & RESOLVE_BENEATH) return Err(EXDEV);
    cur_ = root_;
    if ((flags_ & RESOLVE_NO_XDEV) && cur_.mount != base_.mount) return Err(EXDEV);
  } else {
    cur_ = base_;
  }
  return {};
}

Result<void> Walker::cross() {
  while (auto m = mounts_->covering(*cur_.mount, *cur_.dentry)) {
    if (flags_ & RESOLVE_NO_XDEV) return Err(EXDEV);
    cur_.dentry = m->root();
    cur_.mount = std::move(m);
  }
  return {};
}

Result<void> Walker::dot_dot() {
  while (true) {
    if (cur_ == root_) {
      if (flags_ & RESOLVE_BENEATH) return Err(EXDEV);
      break;
    }
    if (cur_.dentry == cur_.mount->root()) {
      if (!cur_.mount->parent()) break;
      if (flags_ & RESOLVE_NO_XDEV) return Err(EXDEV);
      cur_.dentry = cur_.mount->mountpoint();
      cur_.mount = cur_.mount->parent();
      continue;
    }
    if (cur_.dentry->parent()) cur_.dentry = cur_.dentry->parent();
    break;
  }
  TRY(cross());
  // What a rename moved out of the root while this walk waited for the host would lead out of it,
  // too: handle_dots() of fs/namei.c.
  if ((flags_ & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) && !below_root()) return Err(EAGAIN);
  return {};
}

bool Walker::below_root() const {
  const Mount* mount = cur_.mount.get();
  const Dentry* dentry = cur_.dentry.get();
  while (mount != root_.mount.get()) {
    if (!mount->parent()) return false;
    dentry = mount->mountpoint().get();
    mount = mount->parent().get();
  }
  return root_.dentry->is_ancestor_of(*dentry);
}

void Walker::prefetch(std::string_view first) {
  std::array<std::string_view, kPrefetch> names;
  size_t n = 0;
  names[n++] = first;
  size_t at = at_;
  while (n < kPrefetch) {
    while (at < text_.size() && text_[at] == '/') ++at;
    size_t end = std::min(text_.find('/', at), text_.size());
    std::string_view name = std::string_view(text_).substr(at, end - at);
    if (name.empty() || name == "." || name == ".." || name.size() > NAME_MAX) break;
    names[n++] = name;
    at = end;
  }
  if (n > 1) cur_.inode()->prefetch(std::span(names).first(n));
}

Result<Path> Walker::child(std::string_view name) {
  auto cached = cur_.dentry->cached_child(name);
  if (!cached || !is_believed(*cur_.dentry, *cached)) {
    prefetch(name);
    cached = TRY(lookup_dentry(task_, cur_.dentry, name));
  }
  return Path{cur_.mount, std::move(cached)};
}

Result<void> Walker::follow(const Path& link) {
  if (++links_ > kMaxLinks || (flags_ & RESOLVE_NO_SYMLINKS)) return Err(ELOOP);
  Ref<Inode> inode = link.dentry->inode_ref();
  if (inode->is_magic_link()) {
    if (flags_ & RESOLVE_NO_MAGICLINKS) return Err(ELOOP);
    if (flags_ & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) return Err(EXDEV);
    Path to = TRY(inode->follow_magic(task_));
    if ((flags_ & RESOLVE_NO_XDEV) && to.mount != cur_.mount) return Err(EXDEV);
    cur_ = std::move(to);
    magic_ = link;
    return {};
  }
  std::string target = TRY(inode->readlink(task_));
  if (target.empty()) return Err(ENOENT);
  if (target[0] == '/') {
    if (flags_ & RESOLVE_BENEATH) return Err(EXDEV);
    if ((flags_ & RESOLVE_NO_XDEV) && root_.mount != cur_.mount) return Err(EXDEV);
    cur_ = root_;
  }
  target.append(text_, at_);
  text_ = std::move(target);
  at_ = 0;
  return {};
}

Result<LastName> Walker::walk(std::string_view path, Stop stop) {
  if (path.size() >= PATH_MAX) return Err(ENAMETOOLONG);
  TRY(start(path));
  LastName out;
  bool need_dir = flags_ & kMustBeDir;
  bool any = false;
  // What the last step was, for those who stop at the parent.
  while (true) {
    while (at_ < text_.size() && text_[at_] == '/') ++at_;
    if (at_ >= text_.size()) break;
    size_t end = std::min(text_.find('/', at_), text_.size());
    std::string name = text_.substr(at_, end - at_);
    if (name.size() > NAME_MAX) return Err(ENAMETOOLONG);
    at_ = end;
    bool is_last = text_.find_first_not_of('/', at_) == std::string::npos;
    bool slash = at_ < text_.size();
    if (!cur_.inode() || !cur_.inode()->is_dir()) return Err(ENOTDIR);
    TRY(may_search());
    any = true;
    bool dot = name == ".", dotdot = name == "..";
    if (is_last && stop != Stop::kNever) {
      out.trailing_slash = slash;
      if (dot || dotdot) {
        out.kind = dot ? LastName::Kind::kDot : LastName::Kind::kDotDot;
        out.parent = cur_;
        if (stop == Stop::kForCreate) {
          if (dotdot) TRY(dot_dot());
          out.child = cur_;
        }
        return out;
      }
      if (stop == Stop::kAtParent) {
        out.parent = cur_;
        out.name = std::move(name);
        return out;
      }
    }
    if (is_last && slash) need_dir = true;
    if (dot) continue;
    if (dotdot) {
      TRY(dot_dot());
      continue;
    }
    Path parent = cur_;
    Path next = TRY(child(name));
    if (next.dentry->negative()) {
      if (is_last && stop == Stop::kForCreate) {
        out.parent = std::move(parent);
        out.name = std::move(name);
        out.child = std::move(next);
        return out;
      }
      return Err(ENOENT);
    }
    if (next.inode()->is_link()) {
      bool want = !is_last || slash || (flags_ & kFollowLast);
      if (want) {
        bool magic = next.inode()->is_magic_link();
        TRY(follow(next));
        if (magic && is_last && stop == Stop::kForCreate) {
          out.parent = std::move(parent);
          out.child = cur_;
          out.magic = std::move(magic_);
          out.name = std::move(name);
          return out;
        }
        continue;
      }
      cur_ = std::move(next);
    } else {
      cur_ = std::move(next);
      TRY(cross());
    }
    if (is_last && stop == Stop::kForCreate) {
      out.parent = std::move(parent);
      out.name = std::move(name);
      out.child = cur_;
      return out;
    }
  }
  if (!any && stop != Stop::kNever) out.kind = LastName::Kind::kRoot;
  if (need_dir && !(cur_.inode() && cur_.inode()->is_dir())) return Err(ENOTDIR);
  out.parent = cur_;
  out.child = cur_;
  out.magic = std::move(magic_);
  return out;
}

}  // namespace

Result<Ref<Dentry>> lookup_dentry(Task& task, const Ref<Dentry>& dir, std::string_view name) {
  Ref<Inode> inode = dir->inode_ref();
  MonotonicNs ttl = inode->fs().name_ttl();
  Ref<Dentry> child = dir->cached_child(name);
  if (child && is_believed(*dir, *child)) return child;
  for (int attempt = 0;; ++attempt) {
    uint64_t changes = dir->changes;
    Ref<Inode> found = TRY(inode->lookup(task, name));
    // The file system may have let others run: what they did to this directory makes this answer
    // old.
    bool stale = changes != dir->changes;
    if (stale && attempt < 4) continue;
    child = dir->cached_child(name);
    MonotonicNs until = ttl == FileSystem::kForever ? ttl : monotonic_now() + ttl;
    if (child) {
      if (child->inode() == found.get()) {
        child->set_valid_until(until);
        return child;
      }
      if (child->pinned()) return child;
      if (child->negative()) {
        child->unhash();
      } else {
        child->mark_deleted();
      }
    }
    child = Dentry::make(dir, name, std::move(found));
    if (ttl > 0 && !stale && !dir->deleted()) dir->hash(child, until);
    return child;
  }
}

Path cross_mounts(Task& task, Path path) {
  while (auto m = task.fs().mounts->covering(*path.mount, *path.dentry)) {
    path.dentry = m->root();
    path.mount = std::move(m);
  }
  return path;
}

Result<Path> resolve(Task& task, const Path& base, std::string_view path, uint64_t flags) {
  if (path.empty()) {
    if (!(flags & kEmptyPath)) return Err(ENOENT);
    return base;
  }
  Walker walker(task, base, flags);
  LastName last = TRY(walker.walk(path, Stop::kNever));
  return std::move(last.child);
}

Result<Path> resolve_magic(Task& task, const Path& base, std::string_view path, uint64_t flags) {
  LastName last = TRY(Walker(task, base, flags).walk(path, Stop::kNever));
  // Another thread may have put something else there since the caller's walk.
  if (last.child.mount || !last.magic) return Err(ENOENT);
  return std::move(last.magic);
}

Result<LastName> resolve_parent(Task& task, const Path& base, std::string_view path,
                                uint64_t flags) {
  if (path.empty()) return Err(ENOENT);
  return Walker(task, base, flags).walk(path, Stop::kAtParent);
}

Result<LastName> resolve_create(Task& task, const Path& base, std::string_view path,
                                uint64_t flags) {
  if (path.empty()) return Err(ENOENT);
  return Walker(task, base, flags).walk(path, Stop::kForCreate);
}

Result<Path> base_of(Task& task, int dirfd, std::string_view path) {
  if (!path.empty() && path[0] == '/') return task.fs().root;
  if (dirfd == AT_FDCWD) return task.fs().cwd;
  Ref<File> file = TRY(task.fds().get(dirfd));
  if (!path.empty() && (!file->path() || !file->path().inode() || !file->path().inode()->is_dir()))
    return Err(ENOTDIR);
  return place_of(*file);
}

Path place_of(const File& file) {
  if (file.path()) return file.path();
  Inode* inode = file.inode();
  return inode ? Path{{}, Dentry::make_root(Ref<Inode>(inode))} : Path{};
}

Result<Path> resolve_at(Task& task, int dirfd, UserPath user_path, uint64_t flags) {
  // Since 6.11 a null path means an empty one for the *at() calls that allow that.
  std::string path;
  if (user_path.value != 0 || !(flags & kEmptyPath)) path = TRY(task.copy_in_path(user_path));
  if (path.empty() && !(flags & kEmptyPath)) return Err(ENOENT);
  Path base = TRY(base_of(task, dirfd, path));
  return resolve(task, base, path, flags);
}

}  // namespace uks
