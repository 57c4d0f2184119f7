// goferfs as a whole: identity of host files, bounds of its caches.
#include "sentry/fs/goferfs/gofer_fs.h"

#include <algorithm>

namespace uks {

Result<Ref<GoferInode>> GoferFs::attach() {
  if (root_) return root_;
  uint32_t tree = tree_;
  auto node = TRY(rpc([tree](gofer::GoferClient& c) { return c.attach(tree); }));
  if (!root_) root_ = inode_for(node);
  return root_;
}

Result<struct statfs> GoferFs::statfs() {
  auto root = TRY(attach());
  return root->statfs();
}

Ref<GoferInode> GoferFs::inode_for(const gofer::NodeAttr& node) {
  auto it = inodes_.find(key_of(node.attr));
  if (it != inodes_.end() && it->second->type() == (node.attr.mode & S_IFMT)) {
    GoferInode& known = *it->second;
    if (known.id_ == node.id) {
      ++known.lookups_;
    } else {
      // Another name of the same file (a hard link), or the old id was given up: the newest id is the
      // one that surely leads somewhere.
      give_back(known.id_, known.lookups_, false);
      known.id_ = node.id;
      known.lookups_ = 1;
    }
    known.update(node.attr);
    return Ref<GoferInode>(&known);
  }
  auto inode = make_ref<GoferInode>(*this, node.id, node.attr);
  inodes_[inode->key_] = inode.get();
  return inode;
}

// Numbers of the root's device stay as they are; other devices' are moved apart, below 2^53 so that
// programs that keep them in a double still tell them apart.
uint64_t GoferFs::guest_ino(const gofer::Attr& a) {
  auto it = std::ranges::find(devices_, a.dev);
  size_t index = static_cast<size_t>(it - devices_.begin());
  if (it == devices_.end()) devices_.push_back(a.dev);
  return a.ino + (static_cast<uint64_t>(index) << 45);
}

void GoferFs::drop_names() {
  // Refs of children may destroy inodes, which changes the map: collect first.
  std::vector<Ref<GoferInode>> dirs;
  for (auto& [key, inode] : inodes_) {
    if (!inode->names_.empty()) dirs.push_back(Ref<GoferInode>(inode));
  }
  for (auto& dir : dirs) dir->names_.clear();
  names_ = 0;
}

void GoferFs::note_fd(GoferInode& inode) {
  // Without a name it lives as long as its open files, and its descriptors with it.
  if (inode.in_clock_ || inode.host_.nlink == 0) return;
  inode.in_clock_ = true;
  if (with_fds_.size() < kMaxFds) {
    inode.clock_slot_ = with_fds_.size();
    with_fds_.push_back(Ref<GoferInode>(&inode));
    return;
  }
  inode.clock_slot_ = clock_hand_;
  Ref<GoferInode> victim = std::exchange(with_fds_[clock_hand_], Ref<GoferInode>(&inode));
  clock_hand_ = (clock_hand_ + 1) % kMaxFds;
  if (!victim) return;
  victim->in_clock_ = false;
  victim->read_fd_ = {};
  victim->write_fd_ = {};
}

void GoferFs::drop_fds(GoferInode& inode) {
  // What an open file holds as well answers fstat(2) without the gofer, and goes with the inode.
  for (Ref<HostFd>* fd : {&inode.read_fd_, &inode.write_fd_}) {
    if (*fd && (*fd)->ref_count() == 1) *fd = {};
  }
  if (!inode.in_clock_) return;
  inode.in_clock_ = false;
  with_fds_[inode.clock_slot_] = {};
}

void GoferFs::give_back(gofer::NodeId id, uint64_t lookups, bool soon) {
  if (soon) forget_by_ = std::min(forget_by_, monotonic_now() + kForgetDelay);
  forgets_.push_back({id, lookups});
}

void GoferFs::flush_forgets() {
  std::vector<gofer::Forget> batch;
  batch.swap(forgets_);
  forget_by_ = kNever;
  if (batch.empty()) return;
  Ref<FileSystem> self(this);
  Unlocked unlocked;
  client_.forget(batch);
}

}  // namespace uks
