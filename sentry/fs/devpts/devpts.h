// devpts: the directory /dev/pts and the multiplexer /dev/ptmx.
#pragma once
#include <set>

#include "sentry/fs/tmpfs/tmpfs.h"

namespace uks {

class Kernel;
class Pty;

// Its nodes are inodes of a tmpfs of its own, whose names only the kernel changes.
class Devpts final : public Tmpfs {
 public:
  // Terminals at a time, as /proc/sys/kernel/pty/max would say.
  static constexpr int kMaxTerminals = 1024;

  Devpts();
  const char* type() const override { return "devpts"; }
  std::string options() const override { return ",gid=5,mode=620,ptmxmode=666"; }
  Result<struct statfs> statfs() override;
  // Names come and go without the dentry cache.
  MonotonicNs name_ttl() const override { return 0; }
};

class DevptsRoot final : public TmpfsInode {
 public:
  DevptsRoot(Devpts& fs, Kernel& kernel);

  Result<Ref<Inode>> mknod(std::string_view, const NewNode&) override { return Err(EPERM); }
  Result<Ref<Inode>> mkdir(std::string_view, const NewNode&) override { return Err(EPERM); }
  Result<Ref<Inode>> symlink(std::string_view, std::string_view, const NewNode&) override {
    return Err(EPERM);
  }
  Result<void> link(std::string_view, Inode&) override { return Err(EPERM); }
  Result<void> unlink(std::string_view, Inode&) override { return Err(EPERM); }
  Result<void> rmdir(std::string_view, Inode&) override { return Err(EPERM); }
  Result<void> rename(std::string_view, Inode&, Inode&, std::string_view, Inode*,
                      unsigned) override {
    return Err(EPERM);
  }
  Result<Ref<Inode>> create_unnamed(const NewNode&) override { return Err(EOPNOTSUPP); }

  // A new terminal with the lowest free number; returns its master. ENOSPC: too many.
  Result<Ref<File>> open_master(Task& task, Path path, int flags);
  // The master is gone: so is the name.
  void forget(int index);

 private:
  Kernel& kernel_;
};

// The multiplexer as a node of another tree (/dev/ptmx).
Ref<TmpfsInode> make_ptmx(Tmpfs& fs, uint64_t ino, Ref<DevptsRoot> root);

// A fresh tree with the node ptmx.
Ref<DevptsRoot> make_devpts_root(Kernel& kernel);

}  // namespace uks
