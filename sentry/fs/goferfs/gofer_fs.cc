// goferfs as a whole: identity of host files, bounds of its caches.
#include "sentry/fs/goferfs/gofer_fs.h"

#include <algorithm>

#include "sentry/task/close_later.h"
#include "sentry/vfs/host_io.h"

namespace uks {

HostFd::~HostFd() {
  if (written_) written_->note_own_close();
  // The last descriptor of a removed file frees its blocks.
  constexpr off_t kMuch = off_t{16} << 20;
  struct stat st;
  if (host_fstat(fd_.get(), &st) == 0 && st.st_nlink == 0 && st.st_size > kMuch)
    close_later(std::move(fd_), nullptr);
}

Result<Ref<GoferInode>> GoferFs::attach() {
  if (root_) return root_;
  uint32_t tree = tree_;
  auto node = TRY(rpc([tree](gofer::GoferClient& c) { return c.attach(tree); }));
  if (!device_) device_ = device_of(node.attr.dev, FileSystem::dev());
  if (!root_) root_ = inode_for(node, attr_changes_);
  return root_;
}

std::shared_ptr<GoferFs::Device> GoferFs::device_of(uint64_t host_dev, uint64_t guest_dev) {
  static std::map<uint64_t, std::shared_ptr<Device>> known;  // under the kernel lock
  std::shared_ptr<Device>& device = known[host_dev];
  if (!device) device = std::make_shared<Device>(Device{guest_dev, {host_dev}});
  return device;
}

Result<struct statfs> GoferFs::statfs() {
  auto root = TRY(attach());
  return root->statfs();
}

Ref<GoferInode> GoferFs::inode_for(const gofer::NodeAttr& node, uint64_t asked) {
  auto it = inodes_.find(key_of(node.attr));
  if (it != inodes_.end() && it->second->type() == (node.attr.mode & S_IFMT)) {
    GoferInode& known = *it->second;
    if (known.id_ == node.id) {
      ++known.lookups_;
    } else {
      // Another name of the same file (a hard link), or the old id was given up: the newest id is
      // the one that surely leads somewhere.
      give_back(known.id_, known.lookups_, false);
      known.id_ = node.id;
      known.lookups_ = 1;
      known.id_lost_ = false;
      // Ids are found by their paths: those of what is below a directory that moved lead nowhere.
      if (known.is_dir()) known.doubt_all();
    }
    if (known.attr_version_ <= asked) known.update(node.attr);
    return Ref<GoferInode>(&known);
  }
  auto inode = make_ref<GoferInode>(*this, node.id, node.attr);
  inodes_[inode->key_] = inode.get();
  return inode;
}

// Numbers of the root's device stay as they are; other devices' are moved apart, below 2^53 so that
// programs that keep them in a double still tell them apart.
uint64_t GoferFs::guest_ino(const gofer::Attr& a) {
  std::vector<uint64_t>& devices = device_->host_devs;
  const auto it = std::ranges::find(devices, a.dev);
  const size_t index = static_cast<size_t>(it - devices.begin());
  if (it == devices.end()) devices.push_back(a.dev);
  return a.ino + (static_cast<uint64_t>(index) << 45);
}

void GoferFs::note_name(GoferInode& dir) {
  if (dir.names_.size() == 1) dir.named_position_ = named_dirs_.insert(named_dirs_.end(), &dir);
  if (++names_ > kMaxNames) evict_names();
}

void GoferFs::uncount_names(GoferInode& dir, size_t count) {
  names_ -= count;
  if (dir.names_.empty() && count > 0) named_dirs_.erase(dir.named_position_);
}

void GoferFs::evict_names() {
  // Inodes go when the lists are in order again: an inode's end takes its own names with it.
  std::vector<Ref<GoferInode>> gone;
  size_t second_chances = named_dirs_.size();
  for (size_t left = kEvictNames; left > 0 && !named_dirs_.empty();) {
    GoferInode& dir = *named_dirs_.front();
    if (dir.names_used_ && second_chances > 0) {
      second_chances--;
      dir.names_used_ = false;
      named_dirs_.splice(named_dirs_.end(), named_dirs_, named_dirs_.begin());
      continue;
    }
    size_t count = 0;
    for (; left > 0 && !dir.names_.empty(); left--, count++) {
      const auto it = dir.names_.begin();
      if (it->second.inode) gone.push_back(std::move(it->second.inode));
      dir.names_.erase(it);
    }
    dir.complete_ = false;
    uncount_names(dir, count);
  }
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
