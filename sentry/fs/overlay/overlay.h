// overlay: a read-only lower tree under a tmpfs. What is changed is copied up first; what is
// removed leaves a whiteout (a character device 0:0 in the upper layer), as in the kernel's
// overlayfs.
#pragma once
#include <mutex>
#include <unordered_map>

#include "sentry/fs/overlay/sleep_lock.h"
#include "sentry/fs/tmpfs/tmpfs.h"
#include "sentry/task/wait_queue.h"
#include "sentry/vfs/dir_file.h"
#include "sentry/vfs/inode.h"

namespace uks {

class OverlayInode;

class Overlay : public FileSystem {
 public:
  // `lower`: a directory. `size_limit`: bytes of the upper layer, 0 for the default. `ttl`: how
  // long names of the lower tree are believed.
  Overlay(Ref<Inode> lower, uint64_t size_limit, MonotonicNs ttl, Ref<PageQuota> sandbox = nullptr);
  const char* type() const override { return "overlay"; }
  std::string options() const override { return ",lowerdir=/,upperdir=/,workdir=/"; }
  Result<struct statfs> statfs() override;
  MonotonicNs name_ttl() const override { return ttl_; }

  Ref<OverlayInode> root();
  // Files in the upper layer that were not there when note_baseline() was called: what a throw-away
  // sandbox loses at its end.
  uint64_t discarded_files() const;
  void note_baseline() { baseline_ = count_files(); }

 private:
  friend class OverlayInode;
  // The inode of a pair of layers; one object per pair.
  Ref<OverlayInode> inode_for(Ref<TmpfsInode> upper, Ref<Inode> lower);
  uint64_t count_files() const;

  Ref<Tmpfs> upper_fs_;
  Ref<TmpfsInode> upper_root_;
  Ref<Inode> lower_root_;
  Ref<OverlayInode> root_;
  MonotonicNs ttl_;
  uint64_t baseline_ = 0;
  // All changes of the upper layer, one after the other: they look at the lower layer, which drops
  // the kernel lock. Not while the data of a file is copied.
  SleepLock changing_;
  // Some file's data were copied up.
  SleepEvent copied_;
  WaitQueue copied_queue_;
  std::unordered_map<const Inode*, OverlayInode*> by_upper_, by_lower_;
  // Copied-up files that have other names in the lower layer: those must keep leading here.
  std::vector<Ref<OverlayInode>> linked_;
};

class OverlayInode : public Inode {
 public:
  OverlayInode(Overlay& fs, Ref<TmpfsInode> upper, Ref<Inode> lower);
  ~OverlayInode() override;

  uint32_t type() const override { return type_; }
  Result<Attr> getattr() override;
  Result<void> setattr(const SetAttr& changes) override;
  Result<Ref<Inode>> find(std::string_view name) override;
  void prefetch(std::span<const std::string_view> names) override;
  void prefetch_each(std::span<const std::string_view> names) override;
  Result<Ref<Inode>> mknod(std::string_view name, const NewNode& node) override;
  Result<Ref<Inode>> mkdir(std::string_view name, const NewNode& node) override;
  Result<Ref<Inode>> symlink(std::string_view name, std::string_view target,
                             const NewNode& node) override;
  Result<void> link(std::string_view name, Inode& inode) override;
  Result<void> unlink(std::string_view name, Inode& child) override;
  Result<void> rmdir(std::string_view name, Inode& child) override;
  Result<void> rename(std::string_view old_name, Inode& source, Inode& new_dir,
                      std::string_view new_name, Inode* target, unsigned flags) override;
  Result<Ref<Inode>> create_unnamed(const NewNode& node) override;
  Result<std::vector<DirEntry>> list() override;
  Result<std::string> link_text() override;
  Result<Ref<File>> open(Task& task, const Path& path, int flags) override;
  Result<size_t> read_at(int64_t pos, std::span<char> buffer) override;
  Result<std::string> getxattr(std::string_view name) override;
  Result<void> setxattr(std::string_view name, std::string_view value, int flags) override;
  Result<void> removexattr(std::string_view name) override;
  Result<std::vector<std::string>> listxattr() override;

  TmpfsInode* upper() const { return upper_.get(); }
  Inode* lower() const { return lower_.get(); }
  // Makes sure there is an upper file. `max_bytes`: how much of the data is still wanted.
  Result<void> copy_up(uint64_t max_bytes = UINT64_MAX);

 private:
  friend class Overlay;
  Overlay& overlay() const { return static_cast<Overlay&>(fs()); }
  Inode& real() const { return upper_ ? *static_cast<Inode*>(upper_.get()) : *lower_; }
  // Do lower names shine through?
  bool merges() const;
  void set_upper(Ref<TmpfsInode> upper);
  struct Copy {
    Ref<TmpfsInode> inode;
    uint32_t other_links = 0;  // names in the lower layer besides the copied one
  };
  // Copies the data without `changing_`, then takes that. Still no upper file: the lower one
  // changes all the time.
  Result<void> copy_up_ahead(uint64_t max_bytes);
  // The same for what lies below this directory, so that a rename has little left to copy. At most
  // `budget` files; what fails is met again.
  void copy_files_ahead(size_t budget);
  // May drop the kernel lock, with `changing_` held or without.
  Result<Ref<TmpfsInode>> make_copy(uint64_t max_bytes, uint32_t& other_links);
  // ---- All below: with `changing_` held.
  // `made`: what copy_up_ahead() has.
  Result<void> copy_up_locked(uint64_t max_bytes, Copy* made = nullptr);
  // A directory and everything below it; the lower layer no longer matters to them. EXDEV: too
  // much.
  Result<void> copy_up_tree(size_t& budget);
  // Is there a lower file of this name that a removal must hide?
  Result<bool> lower_has(std::string_view name);
  // Makes room in the upper directory for a new `name`: EEXIST, or a whiteout to replace.
  Result<void> prepare_new(std::string_view name);
  Result<Ref<Inode>> make(std::string_view name, const NewNode& node, std::string_view target);
  Result<void> remove(std::string_view name, OverlayInode& child);
  void put_whiteout(std::string_view name);
  Result<bool> is_empty();

  uint32_t type_;
  bool copying_ = false;  // copy_up_ahead() is at work
  Ref<TmpfsInode> upper_;
  Ref<Inode> lower_;
  // Where the lower file is named, for copy-up; null when that name was removed.
  Ref<OverlayInode> parent_;
  std::string name_;
  uint32_t lower_links_ = 0;  // names in the lower layer besides the copied-up one
};

// A regular file opened for reading while it was only in the lower layer: follows a later copy-up.
class OverlayFile final : public SeekableFile {
 public:
  OverlayFile(Path path, int flags, Ref<OverlayInode> inode, Ref<File> real)
      : SeekableFile(std::move(path), flags), inode_(std::move(inode)), real_(std::move(real)) {}
  Result<size_t> pread(Task& task, IoSink& sink, int64_t pos) override;
  Result<size_t> pwrite(Task&, IoSource&, int64_t) override { return Err(EBADF); }
  Result<MappableFd> mappable_fd(Task& task, int prot, bool shared) override;
  Result<int64_t> seek(Task& task, int64_t offset, int whence) override;
  Result<void> sync(Task&, bool) override { return {}; }

 private:
  Result<File*> real(Task& task);
  Ref<OverlayInode> inode_;
  Ref<File> real_;
  bool on_upper_ = false;
};

}  // namespace uks
