// The overlay as a whole, and what reads it: lookup, attributes, merged directories, open files.
#include "sentry/fs/overlay/overlay.h"

#include <dirent.h>
#include <sys/epoll.h>

#include <set>

#include "sentry/fs/overlay/layers.h"
#include "sentry/task/task.h"

namespace uks {
namespace {

// Above what file systems of any size use for numbers, below 2^53: see GoferFs::guest_ino().
constexpr uint64_t kFirstUpperIno = 1ull << 44;

uint64_t files_below(const TmpfsInode& dir) {
  uint64_t n = 0;
  std::vector<const TmpfsInode*> todo{&dir};
  while (!todo.empty()) {
    const TmpfsInode* d = todo.back();
    todo.pop_back();
    for (auto& [name, child] : d->children()) {
      if (child->is_dir()) {
        todo.push_back(child.get());
      } else if (!is_whiteout(*child)) {
        ++n;
      }
    }
  }
  return n;
}

}  // namespace

Overlay::Overlay(Ref<Inode> lower, uint64_t size_limit, MonotonicNs ttl, Ref<PageQuota> sandbox)
    : upper_fs_(make_ref<Tmpfs>(size_limit, kFirstUpperIno, std::move(sandbox))),
      lower_root_(std::move(lower)),
      ttl_(ttl) {}

Ref<OverlayInode> Overlay::root() {
  if (root_) return root_;
  uint32_t mode = 0755, uid = 0, gid = 0;
  uint64_t ino = 2;
  if (auto attr = lower_root_->getattr()) {
    mode = attr->mode & 07777;
    uid = attr->uid;
    gid = attr->gid;
    ino = attr->ino;
  }
  upper_root_ =
      upper_fs_->make_inode({.mode = S_IFDIR | mode, .uid = uid, .gid = gid, .rdev = 0}, ino);
  root_ = inode_for(upper_root_, lower_root_);
  return root_;
}

uint64_t Overlay::count_files() const { return upper_root_ ? files_below(*upper_root_) : 0; }

uint64_t Overlay::discarded_files() const {
  uint64_t now = count_files();
  return now > baseline_ ? now - baseline_ : 0;
}

Result<struct statfs> Overlay::statfs() {
  auto s = TRY(upper_fs_->statfs());
  s.f_type = 0x794c7630;  // OVERLAYFS_SUPER_MAGIC
  return s;
}

Ref<OverlayInode> Overlay::inode_for(Ref<TmpfsInode> upper, Ref<Inode> lower) {
  OverlayInode* known = nullptr;
  if (upper) {
    if (auto it = by_upper_.find(upper.get()); it != by_upper_.end()) known = it->second;
  } else if (auto it = by_lower_.find(lower.get()); it != by_lower_.end()) {
    known = it->second;
  }
  if (known) {
    // The host may have replaced the lower directory of a merged one.
    if (lower && known->lower_ != lower && known->is_dir()) {
      by_lower_.erase(known->lower_.get());
      known->lower_ = std::move(lower);
      by_lower_[known->lower_.get()] = known;
    }
    return Ref<OverlayInode>(known);
  }
  return make_ref<OverlayInode>(*this, std::move(upper), std::move(lower));
}

OverlayInode::OverlayInode(Overlay& fs, Ref<TmpfsInode> upper, Ref<Inode> lower)
    : Inode(fs),
      type_(upper ? upper->type() : lower->type()),
      upper_(std::move(upper)),
      lower_(std::move(lower)) {
  if (upper_) fs.by_upper_[upper_.get()] = this;
  if (lower_) fs.by_lower_[lower_.get()] = this;
}

OverlayInode::~OverlayInode() {
  auto forget = [this](auto& map, const Inode* key) {
    auto it = map.find(key);
    if (it != map.end() && it->second == this) map.erase(it);
  };
  forget(overlay().by_upper_, upper_.get());
  forget(overlay().by_lower_, lower_.get());
}

bool OverlayInode::merges() const {
  return lower_ && lower_->is_dir() && !(upper_ && is_opaque(*upper_));
}

Result<Attr> OverlayInode::getattr() {
  Ref<OverlayInode> self(this);
  Attr a = TRY(real().getattr());
  a.dev = fs().dev();
  if (upper_) {
    a.nlink += lower_links_;
    // As overlayfs: a merged directory's count would need both layers to be read.
    if (is_dir() && merges()) a.nlink = 1;
  }
  return a;
}

Result<Ref<Inode>> OverlayInode::find(std::string_view name) {
  Ref<OverlayInode> self(this);
  std::string key(name);
  for (int attempt = 0;; ++attempt) {
    Ref<TmpfsInode> up(upper_ ? upper_->child(key) : nullptr);
    if (up && is_whiteout(*up)) return Ref<Inode>();
    Ref<Inode> low;
    if (merges() && !(up && (!up->is_dir() || is_opaque(*up)))) {
      Ref<Inode> dir = lower_;
      low = TRY(dir->find(key));
      // The lower layer let others run: has the upper one changed?
      TmpfsInode* again = upper_ ? upper_->child(key) : nullptr;
      if (again != up.get() && attempt < 8) continue;
      if (up && low && !low->is_dir()) low = {};
    }
    if (!up && !low) return Ref<Inode>();
    auto inode = overlay().inode_for(up, low);
    if (!inode->upper_) {
      inode->parent_ = self;
      inode->name_ = key;
    }
    return Ref<Inode>(std::move(inode));
  }
}

void OverlayInode::prefetch(std::span<const std::string_view> names) {
  if (!merges() || (upper_ && upper_->child(names[0]))) return;
  Ref<Inode> dir = lower_;
  dir->prefetch(names);
}

void OverlayInode::prefetch_each(std::span<const std::string_view> names) {
  if (!merges()) return;
  const Ref<Inode> dir = lower_;
  dir->prefetch_each(names);
}

Result<std::vector<DirEntry>> OverlayInode::list() {
  Ref<OverlayInode> self(this);
  std::vector<DirEntry> below;
  if (merges()) {
    Ref<Inode> dir = lower_;
    below = TRY(dir->list());
  }
  if (!upper_) return below;
  std::vector<DirEntry> out;
  std::set<std::string, std::less<>> hidden;
  for (auto& [name, child] : upper_->children()) {
    if (!below.empty()) hidden.insert(name);
    if (!is_whiteout(*child)) out.push_back({name, child->ino(), dirent_type(child->type())});
  }
  for (auto& e : below) {
    if (!hidden.contains(e.name)) out.push_back(std::move(e));
  }
  upper_->touch_accessed();
  return out;
}

Result<std::string> OverlayInode::link_text() {
  Ref<OverlayInode> self(this);
  return real().link_text();
}

Result<size_t> OverlayInode::read_at(int64_t pos, std::span<char> buffer) {
  Ref<OverlayInode> self(this);
  return real().read_at(pos, buffer);
}

Result<Ref<File>> OverlayInode::open(Task& task, const Path& path, int flags) {
  Ref<OverlayInode> self(this);
  if (is_dir()) {
    // The lower layer may forbid listing it.
    if (!upper_) {
      auto probe = lower_->open(task, path, flags);
      if (!probe && probe.error() != ENXIO) return Err(probe.error());
    }
    return make_ref<DirFile>(path, flags);
  }
  if ((flags & O_ACCMODE) != O_RDONLY && is_regular()) {
    // The first one copies; the others must not keep the sentry's threads waiting.
    if (copying_ && !upper_) return Err(task.block({{&overlay().copied_queue_, EPOLLIN}}));
    TRY(copy_up());
  }
  if (upper_) return upper_->open(task, path, flags);
  Ref<Inode> low = lower_;
  auto file = TRY(low->open(task, path, flags));
  if (!is_regular()) return file;
  return make_ref<OverlayFile>(path, flags, self, std::move(file));
}

Result<std::string> OverlayInode::getxattr(std::string_view name) {
  if (is_private_xattr(name)) return Err(ENODATA);
  Ref<OverlayInode> self(this);
  return real().getxattr(name);
}

Result<std::vector<std::string>> OverlayInode::listxattr() {
  Ref<OverlayInode> self(this);
  auto names = TRY(real().listxattr());
  std::erase_if(names, [](const std::string& n) { return is_private_xattr(n); });
  return names;
}

Result<File*> OverlayFile::real(Task& task) {
  if (!on_upper_ && inode_->upper()) {
    real_ = TRY(inode_->upper()->open(task, path(), flags()));
    on_upper_ = true;
  }
  return real_.get();
}

Result<size_t> OverlayFile::pread(Task& task, IoSink& sink, int64_t pos) {
  Ref<File> file(TRY(real(task)));
  return file->pread(task, sink, pos);
}

Result<MappableFd> OverlayFile::mappable_fd(Task& task, int prot, bool shared) {
  return TRY(real(task))->mappable_fd(task, prot, shared);
}

Result<int64_t> OverlayFile::seek(Task& task, int64_t offset, int whence) {
  File* file = TRY(real(task));
  file->pos = pos;
  pos = TRY(file->seek(task, offset, whence));
  return pos;
}

}  // namespace uks
