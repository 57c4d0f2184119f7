// Inodes of host files: attributes, names, changes.
#include "sentry/fs/goferfs/gofer_fs.h"

#include <dirent.h>

#include "sentry/vfs/host_io.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

namespace uks {
namespace {

timespec to_timespec(const gofer::Time& t) { return {t.sec, static_cast<long>(t.nsec)}; }
gofer::Time to_time(const timespec& t) { return {t.tv_sec, static_cast<uint32_t>(t.tv_nsec)}; }

gofer::Attr attr_of_stat(const struct stat& st, const gofer::Attr& old) {
  gofer::Attr a = old;
  a.mode = st.st_mode;
  a.nlink = static_cast<uint32_t>(st.st_nlink);
  a.uid = st.st_uid;
  a.gid = st.st_gid;
  a.size = static_cast<uint64_t>(st.st_size);
  a.blocks = static_cast<uint64_t>(st.st_blocks);
  a.blksize = static_cast<uint32_t>(st.st_blksize);
  a.atime = to_time(st.st_atim);
  a.mtime = to_time(st.st_mtim);
  a.ctime = to_time(st.st_ctim);
  return a;
}

// What the host tells of a name's making, and of a file's last name.
constexpr uint32_t kOfMaking = IN_CREATE | IN_ATTRIB | IN_MODIFY | IN_CLOSE_WRITE;
constexpr uint32_t kOfEnding = IN_ATTRIB | IN_DELETE_SELF;

const GoferInode* of(const Inode& inode) { return static_cast<const GoferInode*>(&inode); }

}  // namespace

GoferInode::GoferInode(GoferFs& fs, gofer::NodeId id, const gofer::Attr& attr)
    : Inode(fs), id_(id), key_(GoferFs::key_of(attr)), host_(attr), ino_(fs.guest_ino(attr)) {
  attr_until_ = monotonic_now() + fs.ttl_;
}

GoferInode::~GoferInode() {
  GoferFs& fs = gofer_fs();
  if (write_fd_) write_fd_->disown();
  auto it = fs.inodes_.find(key_);
  if (it != fs.inodes_.end() && it->second == this) fs.inodes_.erase(it);
  const size_t count = names_.size();
  const auto names = std::exchange(names_, {});
  fs.uncount_names(*this, count);
  if (host_watch_ != 0) watches_of_fs()->stop(*this);
  fs.give_back(id_, lookups_, host_.nlink == 0);
}

void GoferInode::update(const gofer::Attr& attr) {
  uint32_t type = host_.mode & S_IFMT;
  host_ = attr;
  host_.mode = (attr.mode & ~static_cast<uint32_t>(S_IFMT)) | type;
  // A link made elsewhere, and writing by mmap, are not told of until the file is closed.
  constexpr MonotonicNs kCoveredTtl = 1'000'000'000;
  if (!is_dir() && host_.nlink > 1) had_links_ = true;
  if (!is_dir() && (host_.nlink != 1 || had_links_)) coverage_ = 0;
  const HostWatches* host = watches_of_fs();
  const bool covered = host && (is_dir() ? believes_ : coverage_ == host->coverage());
  attr_until_ =
      monotonic_now() + (covered ? std::max(kCoveredTtl, gofer_fs().ttl_) : gofer_fs().ttl_);
}

void GoferInode::cover(const GoferInode& dir) {
  if (!dir.believes_ || is_dir() || is_mapped_ || had_links_ || host_.nlink != 1) return;
  coverage_ = watches_of_fs()->coverage();
}

bool GoferInode::is_covered() {
  HostWatches* host = watches_of_fs();
  if (!host) return false;
  if (is_dir() ? !believes_ : coverage_ != host->coverage()) return false;
  host->drain();
  return true;
}

Attr GoferInode::to_attr() const {
  Attr a;
  a.ino = ino_;
  a.dev = fs().dev();
  a.mode = host_.mode;
  a.nlink = host_.nlink;
  a.uid = host_.uid;
  a.gid = host_.gid;
  a.rdev = host_.rdev;
  a.size = host_.size;
  a.blocks = host_.blocks;
  a.blksize = host_.blksize ? host_.blksize : 4096;
  a.atime = to_timespec(host_.atime);
  a.mtime = to_timespec(host_.mtime);
  a.ctime = to_timespec(host_.ctime);
  if (host_.btime.sec || host_.btime.nsec) a.btime = to_timespec(host_.btime);
  return a;
}

Result<Attr> GoferInode::getattr() {
  (void)is_covered();
  if (attr_until_ >= monotonic_now()) return to_attr();
  Ref<HostFd> fd = write_fd_ ? write_fd_ : read_fd_;
  if (fd) {
    struct stat st;
    if (host_fstat(fd->get(), &st) == 0) {
      update(attr_of_stat(st, host_));
      return to_attr();
    }
  }
  Ref<GoferInode> self(this);
  const uint64_t version = attr_version_;
  gofer::NodeId id = id_;
  auto fresh = gofer_fs().rpc([id](gofer::GoferClient& c) { return c.getattr(id); });
  if (!fresh) {
    // Deleted, but somebody holds it: what was known last stands.
    if (fresh.error() == ENOENT || fresh.error() == ESTALE) {
      id_lost_ = had_links_;
      Attr a = to_attr();
      a.nlink = 0;
      return a;
    }
    return Err(fresh.error());
  }
  if (version == attr_version_) update(*fresh);
  return to_attr();
}

Result<void> GoferInode::setattr(const SetAttr& c) {
  Ref<GoferInode> self(this);
  gofer::SetAttr s;
  if (c.mode) {
    s.mask |= gofer::kSetMode;
    s.mode = *c.mode;
  }
  if (c.uid) {
    s.mask |= gofer::kSetUid;
    s.uid = *c.uid;
  }
  if (c.gid) {
    s.mask |= gofer::kSetGid;
    s.gid = *c.gid;
  }
  if (c.size) {
    s.mask |= gofer::kSetSize;
    s.size = *c.size;
  }
  if (c.atime) {
    s.mask |= gofer::kSetAtime;
    s.atime = to_time(*c.atime);
  }
  if (c.mtime) {
    s.mask |= gofer::kSetMtime;
    s.mtime = to_time(*c.mtime);
  }
  gofer::NodeId id = id_;
  note_attr_change();
  const OwnChange own(watches_of_fs(), {{this, {}, IN_ATTRIB | IN_MODIFY | IN_CLOSE_WRITE}});
  auto fresh = gofer_fs().rpc([&](gofer::GoferClient& client) { return client.setattr(id, s); });
  note_attr_change();
  if (!fresh) {
    id_lost_ = fresh.error() == ESTALE && had_links_;
    return Err(fresh.error());
  }
  update(*fresh);
  return {};
}

void GoferInode::set_name(std::string_view name, Ref<GoferInode> inode) {
  const MonotonicNs until = monotonic_now() + gofer_fs().ttl_;
  const bool fresh =
      names_.insert_or_assign(std::string(name), Name{std::move(inode), until}).second;
  if (fresh) gofer_fs().note_name(*this);
}

void GoferInode::set_known_name(std::string_view name, Ref<GoferInode> inode) {
  if (inode) {
    inode->cover(*this);
    if (inode->attr_until_ >= monotonic_now()) inode->update(inode->host_);  // it is fresh
  }
  set_name(name, std::move(inode));
  Name& known = names_.find(name)->second;
  if (believes_ && !(known.inode && known.inode->had_links_)) known.until = GoferFs::kNever;
}

void GoferInode::forget_name(std::string_view name) {
  ++changes_;
  names_doubted = monotonic_now();
  const Ref<GoferInode> self(this);
  if (complete_) {
    set_name(name, {});
    names_.find(name)->second.until = 0;
    return;
  }
  const auto it = names_.find(name);
  if (it == names_.end()) return;
  const Ref<GoferInode> keep = std::move(it->second.inode);
  names_.erase(it);
  gofer_fs().uncount_names(*this, 1);
}

void GoferInode::doubt_all() {
  ++changes_;
  names_doubted = monotonic_now();
  complete_ = false;
  for (auto& [name, known] : names_) known.until = 0;
  forget_attr();
}

void GoferInode::learn_names() {
  // A few names of a directory that nobody comes back to are not worth a watch; a few more are not
  // worth reading all of it.
  constexpr uint8_t kFew = 3, kMany = 24;
  HostWatches* host = watches_of_fs();
  if (!host || no_watch_ || complete_ || host_.nlink == 0 || !host->is_busy()) return;
  questions_++;
  if (questions_ == kFew && !believes_)
    no_watch_ = !host->start(*this, HostWatches::Why::kToBelieve);
  if (questions_ < kMany || !believes_) return;
  questions_ = 0;
  (void)list();
  if (!complete_) no_watch_ = true;
}

const GoferInode* GoferInode::known_subject(std::string_view name) const {
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : it->second.inode.get();
}

Ref<GoferInode> GoferInode::unnamed_file(uint64_t host_ino) const {
  if (host_ino == 0) return {};
  const auto& inodes = gofer_fs().inodes_;
  const auto it = inodes.lower_bound({host_.dev, host_ino, INT64_MIN, 0});
  if (it == inodes.end() || !it->second->is_unnamed(host_ino)) return {};
  return Ref<GoferInode>(it->second);
}

bool GoferInode::holds(const Name& known) {
  // Of a file with several names only the newest id is kept, and that name may go.
  if (known.inode && known.inode->id_lost_) return false;
  if (known.until == GoferFs::kNever && known.inode && known.inode->had_links_) return false;
  return known.until >= monotonic_now();
}

std::optional<Ref<GoferInode>> GoferInode::known_name(std::string_view name) {
  const bool covered = is_covered();
  const auto it = names_.find(name);
  if (it == names_.end()) {
    if (covered && complete_) return Ref<GoferInode>();
    return std::nullopt;
  }
  names_used_ = true;
  if (!holds(it->second)) return std::nullopt;
  if (covered && it->second.inode) it->second.inode->cover(*this);
  return it->second.inode;
}

Result<Ref<Inode>> GoferInode::find(std::string_view name) {
  Ref<GoferInode> self(this);
  std::string key(name);
  if (auto known = known_name(key)) return Ref<Inode>(std::move(*known));
  learn_names();
  if (auto known = known_name(key)) return Ref<Inode>(std::move(*known));
  uint32_t changes = changes_;
  gofer::NodeId id = id_;
  const std::string_view one = key;
  const uint64_t asked = gofer_fs().attr_changes_;
  auto walked =
      TRY(gofer_fs().rpc([&](gofer::GoferClient& c) { return c.walk(id, std::span(&one, 1)); }));
  if (walked.error == ENOENT) {
    if (changes == changes_) set_known_name(key, {});
    return Ref<Inode>();
  }
  if (walked.error.value != 0) return Err(walked.error);
  if (walked.steps.size() != 1) return Err(EIO);
  auto inode = gofer_fs().inode_for(walked.steps[0], asked);
  if (changes == changes_) set_known_name(key, inode);
  return Ref<Inode>(std::move(inode));
}

void GoferInode::prefetch(std::span<const std::string_view> names) {
  // Skip what is known; fetch the rest in one message.
  Ref<GoferInode> at(this);
  (void)is_covered();
  while (!names.empty()) {
    auto it = at->names_.find(names[0]);
    if (it == at->names_.end() && at->complete_ && at->believes_) return;
    if (it == at->names_.end() || !holds(it->second)) break;
    at->names_used_ = true;
    if (!it->second.inode) return;
    at = it->second.inode;
    names = names.subspan(1);
  }
  if (names.size() < 2 || !at->is_dir()) return;
  std::vector<std::string> copies(names.begin(), names.end());
  std::vector<std::string_view> views(copies.begin(), copies.end());
  gofer::NodeId id = at->id_;
  uint32_t changes = at->changes_;
  const uint64_t asked = gofer_fs().attr_changes_;
  auto walked = gofer_fs().rpc([&](gofer::GoferClient& c) { return c.walk(id, views); });
  if (!walked) return;
  for (size_t i = 0; i < walked->steps.size() && i < copies.size(); ++i) {
    auto inode = gofer_fs().inode_for(walked->steps[i], asked);
    if (i > 0 || changes == at->changes_) at->set_name(copies[i], inode);
    at = std::move(inode);
  }
  if (!walked->steps.empty()) at->note_target(std::move(walked->target));
  if (walked->error == ENOENT && walked->steps.size() < copies.size() && at->is_dir())
    at->set_name(copies[walked->steps.size()], {});
}

void GoferInode::prefetch_each(std::span<const std::string_view> names) {
  Ref<GoferInode> self(this);
  const std::vector<std::string> copies(names.begin(), names.end());
  const std::vector<std::string_view> views(copies.begin(), copies.end());
  const gofer::NodeId id = id_;
  const uint32_t changes = changes_;
  const uint64_t asked = gofer_fs().attr_changes_;
  auto looked = gofer_fs().rpc([&](gofer::GoferClient& c) { return c.look_each(id, views); });
  if (!looked) return;
  for (size_t i = 0; i < looked->size(); ++i) {
    gofer::Looked& one = (*looked)[i];
    Ref<GoferInode> inode;
    if (one.error.value == 0) {
      inode = gofer_fs().inode_for(one.node, asked);
      inode->note_target(std::move(one.target));
    } else if (one.error != ENOENT) {
      continue;
    }
    if (changes == changes_) set_known_name(copies[i], std::move(inode));
  }
}

void GoferInode::note_target(std::string target) {
  if (is_link() && !target.empty()) link_target_ = std::move(target);
}

void GoferInode::changed(uint64_t version, const gofer::Attr& after) {
  // Of calls that overlap, none is known to have looked last.
  bool alone = version == attr_version_;
  ++changes_;
  note_attr_change();
  if (alone && after.mode) {
    update(after);
  } else {
    forget_attr();
  }
}

Result<Ref<Inode>> GoferInode::made(std::string_view name, const gofer::NodeAttr& node,
                                    uint64_t version, const gofer::Attr& after) {
  auto inode = gofer_fs().inode_for(node, gofer_fs().attr_changes_);
  set_name(name, inode);
  changed(version, after);
  return Ref<Inode>(std::move(inode));
}

// The host knows better than the cache whether there is such a name.
std::unexpected<Errno> GoferInode::not_made(std::string_view name, Errno error) {
  if (error == EEXIST) doubt(name);
  return Err(error);
}

void GoferInode::doubt(std::string_view name) {
  if (const auto it = names_.find(name); it != names_.end()) it->second.until = 0;
  ++changes_;
}

Result<Ref<Inode>> GoferInode::mknod(std::string_view name, const NewNode& node) {
  Ref<GoferInode> self(this);
  std::string key(name);
  gofer::NodeId id = id_;
  gofer::Owner owner{node.uid, node.gid};
  const uint64_t version = attr_version_;
  gofer::Attr after;
  const OwnChange own(watches_of_fs(), {{this, key, kOfMaking}});
  if (S_ISREG(node.mode)) {
    auto created = gofer_fs().rpc([&](gofer::GoferClient& c) {
      return c.create(id, key, node.mode & 0777, O_RDWR | O_EXCL, owner, &after);
    });
    if (!created) return not_made(key, created.error());
    auto inode = TRY(made(key, created->node, version, after));
    if (created->fd) {
      auto* file = static_cast<GoferInode*>(inode.get());
      file->write_fd_ = make_ref<HostFd>(std::move(created->fd),
                                         created->node.attr.flags & gofer::kAttrIndirect, file);
      gofer_fs().note_fd(*file);
    }
    return inode;
  }
  auto made_node = gofer_fs().rpc(
      [&](gofer::GoferClient& c) { return c.mknod(id, key, node.mode, owner, &after); });
  if (!made_node) return not_made(key, made_node.error());
  return made(key, *made_node, version, after);
}

Result<Ref<Inode>> GoferInode::create_unnamed(const NewNode& node) {
  Ref<GoferInode> self(this);
  const gofer::NodeId id = id_;
  const gofer::Owner owner{node.uid, node.gid};
  const OwnChange own(watches_of_fs(), {{this, OwnChange::kUnnamed, kOfMaking}});
  auto created = TRY(gofer_fs().rpc(
      [&](gofer::GoferClient& c) { return c.create_unnamed(id, node.mode & 0777, owner); }));
  auto inode = gofer_fs().inode_for(created.node, gofer_fs().attr_changes_);
  inode->is_linkable = true;
  inode->write_fd_ = make_ref<HostFd>(std::move(created.fd), false, inode.get());
  return Ref<Inode>(std::move(inode));
}

Result<Ref<Inode>> GoferInode::mkdir(std::string_view name, const NewNode& node) {
  Ref<GoferInode> self(this);
  std::string key(name);
  gofer::NodeId id = id_;
  const uint64_t version = attr_version_;
  gofer::Attr after;
  const OwnChange own(watches_of_fs(), {{this, key, kOfMaking}});
  auto made_node = gofer_fs().rpc([&](gofer::GoferClient& c) {
    return c.mkdir(id, key, node.mode & 01777, gofer::Owner{node.uid, node.gid}, &after);
  });
  if (!made_node) return not_made(key, made_node.error());
  return made(key, *made_node, version, after);
}

Result<Ref<Inode>> GoferInode::symlink(std::string_view name, std::string_view target,
                                       const NewNode& node) {
  if (target.size() > gofer::kMaxLinkTarget) return Err(ENAMETOOLONG);
  Ref<GoferInode> self(this);
  std::string key(name), text(target);
  gofer::NodeId id = id_;
  const uint64_t version = attr_version_;
  gofer::Attr after;
  const OwnChange own(watches_of_fs(), {{this, key, kOfMaking}});
  auto made_node = gofer_fs().rpc([&](gofer::GoferClient& c) {
    return c.symlink(id, key, text, gofer::Owner{node.uid, node.gid}, &after);
  });
  if (!made_node) return not_made(key, made_node.error());
  return made(key, *made_node, version, after);
}

Result<void> GoferInode::link(std::string_view name, Inode& inode) {
  Ref<GoferInode> self(this), target(static_cast<GoferInode*>(&inode));
  std::string key(name);
  gofer::NodeId id = id_, node = target->id_;
  const uint64_t version = attr_version_;
  gofer::Attr after;
  const OwnChange own(watches_of_fs(), {{this, key, kOfMaking}, {target.get(), {}, IN_ATTRIB}});
  auto made_node =
      gofer_fs().rpc([&](gofer::GoferClient& c) { return c.link(node, id, key, &after); });
  if (!made_node) return not_made(key, made_node.error());
  TRY(made(key, *made_node, version, after));
  target->coverage_ = 0;
  target->forget_attr();
  return {};
}

void GoferInode::name_gone(std::string_view name, Inode& child) {
  auto& gone = static_cast<GoferInode&>(child);
  set_name(name, {});
  gone.forget_attr();
  // The host may give its number to the next file at once.
  if (gone.is_dir() || gone.host_.nlink <= 1) {
    auto& inodes = gofer_fs().inodes_;
    auto it = inodes.find(gone.key_);
    if (it != inodes.end() && it->second == &gone) inodes.erase(it);
    gone.host_.nlink = 0;
    gofer_fs().drop_fds(gone);
  } else {
    --gone.host_.nlink;
  }
}

Result<void> GoferInode::unlink(std::string_view name, Inode& child) {
  Ref<GoferInode> self(this);
  Ref<Inode> keep(&child);
  std::string key(name);
  gofer::NodeId id = id_;
  const uint64_t version = attr_version_;
  gofer::Attr after;
  const OwnChange own(watches_of_fs(),
                      {{this, key, IN_DELETE | IN_ATTRIB}, {of(child), {}, kOfEnding}});
  TRY(gofer_fs().rpc([&](gofer::GoferClient& c) { return c.unlink(id, key, &after); }));
  name_gone(key, child);
  changed(version, after);
  return {};
}

Result<void> GoferInode::rmdir(std::string_view name, Inode& child) {
  Ref<GoferInode> self(this);
  Ref<Inode> keep(&child);
  std::string key(name);
  gofer::NodeId id = id_;
  const uint64_t version = attr_version_;
  gofer::Attr after;
  const OwnChange own(watches_of_fs(),
                      {{this, key, IN_DELETE | IN_ATTRIB}, {of(child), {}, kOfEnding}});
  TRY(gofer_fs().rpc([&](gofer::GoferClient& c) { return c.rmdir(id, key, &after); }));
  name_gone(key, child);
  changed(version, after);
  return {};
}

Result<void> GoferInode::rename(std::string_view old_name, Inode& source, Inode& new_dir,
                                std::string_view new_name, Inode* target, unsigned flags) {
  Ref<GoferInode> self(this), to(static_cast<GoferInode*>(&new_dir)),
      moved(static_cast<GoferInode*>(&source));
  Ref<GoferInode> replaced(static_cast<GoferInode*>(target));
  std::string from_name(old_name), to_name(new_name);
  gofer::NodeId from_id = id_, to_id = to->id_;
  const uint64_t from_version = attr_version_, to_version = to->attr_version_;
  gofer::Attr from_after, to_after;
  constexpr uint32_t kMoves = IN_MOVED_FROM | IN_MOVED_TO | kOfMaking | IN_DELETE;
  const OwnChange own(watches_of_fs(), {{this, from_name, kMoves},
                                        {to.get(), to_name, kMoves},
                                        {moved.get(), {}, IN_MOVE_SELF | IN_ATTRIB},
                                        {replaced.get(), {}, IN_MOVE_SELF | kOfEnding}});
  TRY(gofer_fs().rpc([&](gofer::GoferClient& c) {
    return c.rename(from_id, from_name, to_id, to_name, flags, &from_after, &to_after);
  }));
  if (flags & RENAME_EXCHANGE) {
    set_name(from_name, replaced);
  } else {
    if (replaced) to->name_gone(to_name, *replaced);
    set_name(from_name, {});
  }
  to->set_name(to_name, moved);
  changed(from_version, from_after);
  if (to.get() != this) to->changed(to_version, to_after);
  ++moved->changes_;
  moved->coverage_ = 0;
  moved->forget_attr();
  if (to_after.flags & gofer::kAttrCopied) {
    // What is open keeps the original, which has no name any more.
    if (auto copy = gofer_fs().rpc([&](gofer::GoferClient& c) { return c.lookup(to_id, to_name); }))
      moved->rebind(*copy);
  }
  return {};
}

void GoferInode::rebind(const gofer::NodeAttr& node) {
  GoferFs& fs = gofer_fs();
  if (auto it = fs.inodes_.find(key_); it != fs.inodes_.end() && it->second == this)
    fs.inodes_.erase(it);
  fs.give_back(id_, lookups_, true);
  fs.drop_fds(*this);
  read_fd_ = {};
  write_fd_ = {};
  id_ = node.id;
  lookups_ = 1;
  key_ = GoferFs::key_of(node.attr);
  ino_ = fs.guest_ino(node.attr);
  note_attr_change();
  update(node.attr);
  fs.inodes_.try_emplace(key_, this);
}

Result<std::vector<DirEntry>> GoferInode::list_known() const {
  std::vector<DirEntry> out;
  out.reserve(names_.size());
  for (const auto& [name, known] : names_) {
    if (!holds(known)) return Err(EAGAIN);
    if (known.inode) out.push_back({name, known.inode->ino_, dirent_type(known.inode->type())});
  }
  return out;
}

Result<std::vector<DirEntry>> GoferInode::list() {
  Ref<GoferInode> self(this);
  if (is_covered() && complete_) {
    if (auto known = list_known()) return known;
  }
  const bool believed = believes_;
  gofer::NodeId id = id_;
  uint32_t changes = changes_;
  const uint64_t asked = gofer_fs().attr_changes_;
  auto entries =
      TRY(gofer_fs().rpc([&](gofer::GoferClient& c) { return c.read_directory(id, true); }));
  std::vector<DirEntry> out;
  out.reserve(entries.size());
  // The attributes that came along answer the stat of each name that usually follows.
  bool keep = changes == changes_ && entries.size() <= GoferFs::kMaxNames / 2;
  bool all = true;
  for (auto& e : entries) {
    if (e.id == gofer::kNoNode) {
      all = false;
      if (e.attr.mode)
        out.push_back({std::move(e.name), gofer_fs().guest_ino(e.attr), dirent_type(e.attr.mode)});
      continue;
    }
    auto inode = gofer_fs().inode_for({e.id, e.attr}, asked);
    if (keep) set_known_name(e.name, inode);
    out.push_back({std::move(e.name), inode->ino_, dirent_type(e.attr.mode)});
  }
  complete_ = believed && believes_ && keep && all && names_.size() >= entries.size();
  return out;
}

Result<std::string> GoferInode::link_text() {
  if (!is_link()) return Err(EINVAL);
  if (link_target_) return *link_target_;  // a link never changes its target
  Ref<GoferInode> self(this);
  gofer::NodeId id = id_;
  link_target_ = TRY(gofer_fs().rpc([id](gofer::GoferClient& c) { return c.readlink(id); }));
  return *link_target_;
}

void GoferInode::begin_watch() {
  own_closes_[0] = own_closes_[1] = 0;
  // From now on a name that is known to be absent is one that we removed (HostWatches::tell()).
  const size_t absent = std::erase_if(names_, [](const auto& name) { return !name.second.inode; });
  gofer_fs().uncount_names(*this, absent);
  complete_ = false;
  if (HostWatches* host = watches_of_fs()) (void)host->start(*this, HostWatches::Why::kToTell);
  if (!watches) end_watch();  // it has ended meanwhile
}

void GoferInode::end_watch() {
  // What is believed of its names is not worth more than that.
  if (host_watch_ == 0) return;
  doubt_all();
  watches_of_fs()->stop(*this);
}

void GoferInode::note_own_close() {
  HostWatches* host = watches_of_fs();
  if (!host || !host->active()) return;
  own_close_at_ = monotonic_now();
  for (uint16_t& count : own_closes_) count++;
}

bool GoferInode::was_own_close(bool by_name) {
  // The host tells of it as soon as it has happened; what is left after that is of another one.
  constexpr MonotonicNs kSoon = 1'000'000'000;
  uint16_t& count = own_closes_[by_name];
  if (monotonic_now() - own_close_at_ > kSoon) count = 0;
  if (count == 0) return false;
  count--;
  return true;
}

Result<struct statfs> GoferInode::statfs() {
  Ref<GoferInode> self(this);
  gofer::NodeId id = id_;
  auto s = TRY(gofer_fs().rpc([id](gofer::GoferClient& c) { return c.statfs(id); }));
  struct statfs out{};
  out.f_type = static_cast<long>(s.type);
  out.f_bsize = static_cast<long>(s.bsize);
  out.f_blocks = s.blocks;
  out.f_bfree = s.bfree;
  out.f_bavail = s.bavail;
  out.f_files = s.files;
  out.f_ffree = s.ffree;
  out.f_namelen = static_cast<long>(s.namelen);
  out.f_frsize = static_cast<long>(s.frsize);
  return out;
}

Result<std::string> GoferInode::getxattr(std::string_view name) {
  Ref<GoferInode> self(this);
  std::string key(name);
  gofer::NodeId id = id_;
  return gofer_fs().rpc([&](gofer::GoferClient& c) { return c.getxattr(id, key); });
}

Result<void> GoferInode::setxattr(std::string_view name, std::string_view value, int flags) {
  Ref<GoferInode> self(this);
  std::string key(name), data(value);
  gofer::NodeId id = id_;
  forget_attr();
  const OwnChange own(watches_of_fs(), {{this, {}, IN_ATTRIB}});
  return gofer_fs().rpc([&](gofer::GoferClient& c) { return c.setxattr(id, key, data, flags); });
}

Result<void> GoferInode::removexattr(std::string_view name) {
  Ref<GoferInode> self(this);
  std::string key(name);
  gofer::NodeId id = id_;
  forget_attr();
  const OwnChange own(watches_of_fs(), {{this, {}, IN_ATTRIB}});
  return gofer_fs().rpc([&](gofer::GoferClient& c) { return c.removexattr(id, key); });
}

Result<std::vector<std::string>> GoferInode::listxattr() {
  Ref<GoferInode> self(this);
  gofer::NodeId id = id_;
  return gofer_fs().rpc([id](gofer::GoferClient& c) { return c.listxattr(id); });
}

}  // namespace uks
