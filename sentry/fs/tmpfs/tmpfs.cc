// tmpfs inodes: attributes, directories, links, extended attributes.
#include "sentry/fs/tmpfs/tmpfs.h"

#include <dirent.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

namespace uks {
namespace {

constexpr uint32_t kMaxLinks = 65000;  // st_nlink, as ext4 bounds it
constexpr size_t kMaxXattrs = 256;     // names of one file
constexpr uint64_t kMinInodes = 16384;
constexpr size_t kFreeExtra = 256;  // bytes of link target and attributes that cost nothing
constexpr size_t kMaxXattrBytes = 64 * 1024;

constexpr uint64_t kNodesPerPage = 8;  // an inode costs some 600 bytes, a name 100 to 350

}  // namespace

Tmpfs::Tmpfs(uint64_t size_limit, uint64_t first_ino, Ref<PageQuota> sandbox)
    : sandbox_(std::move(sandbox)), next_ino_(first_ino) {
  const uint64_t limit = size_limit ? size_limit / PageQuota::kPage
                         : sandbox_ ? sandbox_->limit()
                                    : default_page_limit();
  quota_ = make_ref<PageQuota>(limit, sandbox_);
  max_inodes_ = std::max<uint64_t>(limit / 4, kMinInodes);
}

Tmpfs::~Tmpfs() {
  if (sandbox_) sandbox_->uncharge(node_pages_);
}

void Tmpfs::account_nodes() {
  if (!sandbox_) return;
  const uint64_t pages = (inodes_ + names_) / kNodesPerPage;
  if (pages > node_pages_) sandbox_->force(pages - node_pages_);
  if (pages < node_pages_) sandbox_->uncharge(node_pages_ - pages);
  node_pages_ = pages;
}

std::string Tmpfs::options() const {
  return ",size=" + std::to_string(quota_->limit() * FileData::kPage / 1024) + "k";
}

Result<struct statfs> Tmpfs::statfs() {
  struct statfs s{};
  s.f_type = 0x01021994;  // TMPFS_MAGIC
  s.f_bsize = s.f_frsize = FileData::kPage;
  s.f_blocks = quota_->limit();
  s.f_bfree = s.f_bavail = quota_->available();
  s.f_files = max_inodes_;
  s.f_ffree = max_inodes_ - std::min(inodes_, max_inodes_);
  s.f_namelen = 255;
  return s;
}

Ref<TmpfsInode> Tmpfs::make_inode(const NewNode& node) { return make_inode(node, next_ino_++); }

Ref<TmpfsInode> Tmpfs::make_inode(const NewNode& node, uint64_t ino) {
  return make_ref<TmpfsInode>(*this, node, ino);
}

Ref<TmpfsInode> Tmpfs::make_root(uint32_t mode, uint32_t uid, uint32_t gid) {
  return make_inode({.mode = S_IFDIR | (mode & 07777), .uid = uid, .gid = gid, .rdev = 0});
}

TmpfsInode::TmpfsInode(Tmpfs& fs, const NewNode& node, uint64_t ino) : Inode(fs) {
  ++fs.inodes_;
  fs.account_nodes();
  attr_.ino = ino;
  attr_.dev = fs.dev();
  attr_.mode = node.mode;
  attr_.uid = node.uid;
  attr_.gid = node.gid;
  attr_.rdev = node.rdev;
  attr_.nlink = S_ISDIR(node.mode) ? 2 : 0;
  attr_.atime = attr_.mtime = attr_.ctime = now_timespec();
  attr_.btime = attr_.ctime;
  if (S_ISREG(node.mode)) data_ = std::make_unique<FileData>(fs.quota_);
}

TmpfsInode::~TmpfsInode() {
  --tmpfs().inodes_;
  tmpfs().names_ -= children_.size();
  tmpfs().account_nodes();
  bury_children();
  tmpfs().quota_->uncharge(extra_pages_);
}

// A tree that goes away as a whole is as deep as a guest made it: no recursion.
void TmpfsInode::bury_children() {
  static std::vector<Ref<TmpfsInode>>* graves = nullptr;  // under the kernel lock
  if (children_.empty()) return;
  std::vector<Ref<TmpfsInode>> own;
  bool first = graves == nullptr;
  if (first) graves = &own;
  for (auto& [name, child] : children_) graves->push_back(std::move(child));
  children_.clear();
  if (!first) return;
  while (!own.empty()) {
    Ref<TmpfsInode> next = std::move(own.back());
    own.pop_back();
  }
  graves = nullptr;
}

Result<void> TmpfsInode::charge_extra(size_t bytes) {
  uint64_t pages = bytes <= kFreeExtra ? 0 : (bytes + FileData::kPage - 1) / FileData::kPage;
  if (pages > extra_pages_) TRY(tmpfs().quota_->charge(pages - extra_pages_));
  if (pages < extra_pages_) tmpfs().quota_->uncharge(extra_pages_ - pages);
  extra_pages_ = pages;
  return {};
}

size_t TmpfsInode::xattr_bytes() const {
  size_t bytes = 0;
  for (auto& [k, v] : xattrs_) bytes += k.size() + v.size();
  return bytes;
}

Result<void> TmpfsInode::set_link_target(std::string target) {
  TRY(charge_extra(target.size() + xattr_bytes()));
  link_target_ = std::move(target);
  return {};
}

void TmpfsInode::touch_modified() { attr_.mtime = attr_.ctime = now_timespec(); }

// relatime: only when it is older than the last change, or a day old.
void TmpfsInode::touch_accessed() {
  auto not_after = [](const timespec& a, const timespec& b) {
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec <= b.tv_nsec);
  };
  if (not_after(attr_.atime, attr_.mtime) || not_after(attr_.atime, attr_.ctime)) {
    attr_.atime = now_timespec();
    return;
  }
  timespec now = now_timespec();
  if (now.tv_sec - attr_.atime.tv_sec >= 24 * 60 * 60) attr_.atime = now;
}

Result<Attr> TmpfsInode::getattr() {
  Attr a = attr_;
  if (data_) {
    a.size = data_->size();
    a.blocks = data_->blocks();
  } else if (is_link()) {
    a.size = link_target_.size();
  } else if (is_dir()) {
    a.size = (children_.size() + 2) * 20;  // as tmpfs reports it: BOGO_DIRENT_SIZE each
  }
  return a;
}

Result<void> TmpfsInode::setattr(const SetAttr& c) {
  if (c.size) {
    if (!data_) return Err(is_dir() ? EISDIR : EINVAL);
    TRY(data_->truncate(*c.size));
    attr_.mtime = now_timespec();
  }
  if (c.mode) attr_.mode = (attr_.mode & S_IFMT) | (*c.mode & 07777);
  if (c.uid) attr_.uid = *c.uid;
  if (c.gid) attr_.gid = *c.gid;
  if (c.atime) attr_.atime = *c.atime;
  if (c.mtime) attr_.mtime = *c.mtime;
  attr_.ctime = now_timespec();
  return {};
}

TmpfsInode* TmpfsInode::child(std::string_view name) const {
  auto it = children_.find(name);
  return it == children_.end() ? nullptr : it->second.get();
}

Result<Ref<Inode>> TmpfsInode::find(std::string_view name) {
  return Ref<Inode>(Ref<TmpfsInode>(child(name)));
}

Result<void> TmpfsInode::attach(std::string_view name, Ref<TmpfsInode> inode) {
  if (child(name)) return Err(EEXIST);
  if (tmpfs().names_ >= tmpfs().max_inodes_) return Err(ENOSPC);
  ++tmpfs().names_;
  tmpfs().account_nodes();
  if (inode->is_dir()) {
    ++attr_.nlink;
  } else {
    ++inode->attr_.nlink;
  }
  inode->attr_.ctime = now_timespec();
  children_.emplace(name, std::move(inode));
  touch_modified();
  return {};
}

void TmpfsInode::detach(std::string_view name) {
  auto it = children_.find(name);
  if (it == children_.end()) return;
  Ref<TmpfsInode> gone = std::move(it->second);
  children_.erase(it);
  --tmpfs().names_;
  tmpfs().account_nodes();
  if (gone->is_dir()) {
    --attr_.nlink;
    gone->attr_.nlink = 0;
  } else {
    --gone->attr_.nlink;
  }
  gone->attr_.ctime = now_timespec();
  touch_modified();
}

Result<Ref<Inode>> TmpfsInode::make(std::string_view name, const NewNode& node,
                                    std::string_view target) {
  if (attr_.nlink == 0) return Err(ENOENT);  // removed, but somebody's working directory
  if (child(name)) return Err(EEXIST);
  TRY(tmpfs().check_inodes());
  auto inode = tmpfs().make_inode(node);
  if (S_ISLNK(node.mode)) TRY(inode->set_link_target(std::string(target)));
  TRY(attach(name, inode));
  return Ref<Inode>(std::move(inode));
}

Result<Ref<Inode>> TmpfsInode::mknod(std::string_view name, const NewNode& node) {
  return make(name, node, {});
}

Result<Ref<Inode>> TmpfsInode::mkdir(std::string_view name, const NewNode& node) {
  return make(name, node, {});
}

Result<Ref<Inode>> TmpfsInode::symlink(std::string_view name, std::string_view target,
                                       const NewNode& node) {
  if (target.size() >= 4096) return Err(ENAMETOOLONG);
  return make(name, node, target);
}

Result<Ref<Inode>> TmpfsInode::create_unnamed(const NewNode& node) {
  TRY(tmpfs().check_inodes());
  return Ref<Inode>(tmpfs().make_inode(node));
}

Result<void> TmpfsInode::link(std::string_view name, Inode& inode) {
  auto& node = static_cast<TmpfsInode&>(inode);
  if (attr_.nlink == 0) return Err(ENOENT);
  if (node.attr_.nlink >= kMaxLinks) return Err(EMLINK);
  return attach(name, Ref<TmpfsInode>(&node));
}

Result<void> TmpfsInode::unlink(std::string_view name, Inode& victim) {
  TmpfsInode* c = child(name);
  if (!c || c != &victim) return Err(ENOENT);
  detach(name);
  return {};
}

Result<void> TmpfsInode::rmdir(std::string_view name, Inode& victim) {
  TmpfsInode* c = child(name);
  if (!c || c != &victim) return Err(ENOENT);
  if (!c->children_.empty()) return Err(ENOTEMPTY);
  detach(name);
  return {};
}

Result<void> TmpfsInode::rename(std::string_view old_name, Inode& source, Inode& new_dir,
                                std::string_view new_name, Inode* target, unsigned flags) {
  auto& to = static_cast<TmpfsInode&>(new_dir);
  Ref<TmpfsInode> moved(child(old_name));
  Ref<TmpfsInode> replaced(to.child(new_name));
  if (!moved || moved.get() != &source || replaced.get() != target) return Err(ENOENT);
  if (to.attr_.nlink == 0) return Err(ENOENT);
  if (flags & RENAME_EXCHANGE) {
    uint32_t nlink_a = moved->attr_.nlink, nlink_b = replaced->attr_.nlink;
    detach(old_name);
    to.detach(new_name);
    TRY(to.attach(new_name, moved));
    TRY(attach(old_name, replaced));
    moved->attr_.nlink = nlink_a;
    replaced->attr_.nlink = nlink_b;
    return {};
  }
  if (replaced) {
    if (replaced->is_dir() && !replaced->children_.empty()) return Err(ENOTEMPTY);
    to.detach(new_name);
  }
  uint32_t nlink = moved->attr_.nlink;
  detach(old_name);
  TRY(to.attach(new_name, moved));
  moved->attr_.nlink = nlink;
  return {};
}

Result<std::vector<DirEntry>> TmpfsInode::list() {
  std::vector<DirEntry> out;
  out.reserve(children_.size());
  for (auto& [name, inode] : children_)
    out.push_back({name, inode->ino(), dirent_type(inode->attr_.mode)});
  touch_accessed();
  return out;
}

Result<std::string> TmpfsInode::link_text() {
  if (!is_link()) return Err(EINVAL);
  return link_target_;
}

Result<size_t> TmpfsInode::read_at(int64_t pos, std::span<char> buffer) {
  if (!data_) return Err(EINVAL);
  BufferSink sink(buffer);
  return data_->read(static_cast<uint64_t>(pos), sink);
}

Result<size_t> TmpfsInode::write_at(int64_t pos, std::span<const char> buffer) {
  if (!data_) return Err(EINVAL);
  BufferSource source(buffer);
  return data_->write(static_cast<uint64_t>(pos), source);
}

Result<std::string> TmpfsInode::getxattr(std::string_view name) {
  auto it = xattrs_.find(name);
  if (it == xattrs_.end()) return Err(ENODATA);
  return it->second;
}

Result<void> TmpfsInode::setxattr(std::string_view name, std::string_view value, int flags) {
  auto it = xattrs_.find(name);
  if (it != xattrs_.end() && (flags & XATTR_CREATE)) return Err(EEXIST);
  if (it == xattrs_.end() && (flags & XATTR_REPLACE)) return Err(ENODATA);
  size_t bytes = xattr_bytes() + name.size() + value.size();
  if (it != xattrs_.end()) bytes -= it->first.size() + it->second.size();
  if (bytes > kMaxXattrBytes || xattrs_.size() >= kMaxXattrs) return Err(ENOSPC);
  TRY(charge_extra(link_target_.size() + bytes));
  xattrs_.insert_or_assign(std::string(name), std::string(value));
  attr_.ctime = now_timespec();
  return {};
}

Result<void> TmpfsInode::removexattr(std::string_view name) {
  auto it = xattrs_.find(name);
  if (it == xattrs_.end()) return Err(ENODATA);
  xattrs_.erase(it);
  (void)charge_extra(link_target_.size() + xattr_bytes());
  attr_.ctime = now_timespec();
  return {};
}

Result<std::vector<std::string>> TmpfsInode::listxattr() {
  std::vector<std::string> names;
  for (auto& [k, v] : xattrs_) names.push_back(k);
  return names;
}

}  // namespace uks
