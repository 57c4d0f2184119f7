// The directory of pseudo terminals and the node that makes them.
#include "sentry/fs/devpts/devpts.h"

#include <sys/sysmacros.h>

#include "sentry/fs/devpts/pty.h"
#include "sentry/task/kernel.h"

namespace uks {
namespace {

constexpr uint32_t kTtyGroup = 5;
constexpr uint64_t kSize = 1 << 20;  // bytes; extended attributes are all that could take them
constexpr uint64_t kPtmxInode = 2;   // as on Linux, where terminal N is inode N + 3
constexpr uint64_t kFirstSlaveInode = 3;
constexpr uint32_t kDevptsMagic = 0x1cd1;
constexpr unsigned kSlaveMajor = 136;  // Documentation/admin-guide/devices.txt

NewNode device_node(uint32_t mode, uint32_t uid, uint32_t gid, uint64_t rdev) {
  return {.mode = S_IFCHR | mode, .uid = uid, .gid = gid, .rdev = rdev};
}

class SlaveInode final : public TmpfsInode {
 public:
  SlaveInode(Tmpfs& fs, const NewNode& node, uint64_t ino, Ref<Pty> pty)
      : TmpfsInode(fs, node, ino), pty_(std::move(pty)) {}
  Result<Ref<File>> open(Task& task, const Path& path, int flags) override {
    return pty_->open_as_node(task, path, flags);
  }

 private:
  Ref<Pty> pty_;
};

class PtmxInode final : public TmpfsInode {
 public:
  // `keep`: null for a node in the root itself, which cannot be reached without it.
  PtmxInode(Tmpfs& fs, uint64_t ino, DevptsRoot& root, Ref<DevptsRoot> keep)
      : TmpfsInode(fs, device_node(0666, 0, 0, makedev(5, 2)), ino),
        root_(root),
        keep_(std::move(keep)) {}
  Result<Ref<File>> open(Task& task, const Path& path, int flags) override {
    return root_.open_master(task, path, flags & ~O_NOCTTY);
  }

 private:
  DevptsRoot& root_;
  Ref<DevptsRoot> keep_;
};

}  // namespace

Devpts::Devpts() : Tmpfs(kSize) {}

Result<struct statfs> Devpts::statfs() {
  struct statfs s{};
  s.f_type = kDevptsMagic;
  s.f_bsize = s.f_frsize = 4096;
  s.f_namelen = 255;
  return s;
}

DevptsRoot::DevptsRoot(Devpts& fs, Kernel& kernel)
    : TmpfsInode(fs, {.mode = S_IFDIR | 0755, .uid = 0, .gid = 0, .rdev = 0}, 1), kernel_(kernel) {}

// ptmx_open(). The terminal lives as long as its master: then forget() takes the name, which holds
// it.
Result<Ref<File>> DevptsRoot::open_master(Task& task, Path path, int flags) {
  int index = 0;
  while (child(std::to_string(index))) ++index;
  if (index >= Devpts::kMaxTerminals) return Err(ENOSPC);
  auto pty = make_ref<Pty>(kernel_, Ref<DevptsRoot>(this), index);
  const auto node = device_node(0620, task.creds().fsuid, kTtyGroup, pty->device());
  TRY(attach(std::to_string(index),
             make_ref<SlaveInode>(static_cast<Tmpfs&>(fs()), node,
                                  kFirstSlaveInode + static_cast<uint64_t>(index), pty)));
  return make_ref<PtyFile>(std::move(path), flags, std::move(pty), true);
}

void DevptsRoot::forget(int index) { detach(std::to_string(index)); }

Ref<TmpfsInode> make_ptmx(Tmpfs& fs, uint64_t ino, Ref<DevptsRoot> root) {
  DevptsRoot& target = *root;
  return make_ref<PtmxInode>(fs, ino, target, std::move(root));
}

Ref<DevptsRoot> make_devpts_root(Kernel& kernel) {
  auto fs = make_ref<Devpts>();
  auto root = make_ref<DevptsRoot>(*fs, kernel);
  // The tree is empty: attach() cannot fail.
  (void)root->attach("ptmx", make_ref<PtmxInode>(*fs, kPtmxInode, *root, nullptr));
  return root;
}

// The minor number has 20 bits; device numbers of terminals beyond 255 use the next majors on
// Linux.
uint64_t Pty::device() const {
  return makedev(kSlaveMajor + static_cast<unsigned>(index_) / 256,
                 static_cast<unsigned>(index_) % 256);
}

}  // namespace uks
