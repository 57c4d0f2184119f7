// tmpfs: files in the sentry's memory. Also the upper layer of overlays and the ground of /dev.
#pragma once
#include <map>
#include <string>

#include "sentry/fs/tmpfs/file_data.h"
#include "sentry/vfs/dir_file.h"
#include "sentry/vfs/inode.h"

namespace uks {

class TmpfsInode;

class Tmpfs : public FileSystem {
 public:
  // `size_limit` in bytes, 0: none of its own. `first_ino`: numbers start there. `sandbox`: what
  // all pages are charged to as well; null: nothing (tests).
  explicit Tmpfs(uint64_t size_limit, uint64_t first_ino = 1, Ref<PageQuota> sandbox = nullptr);
  ~Tmpfs() override;
  const char* type() const override { return "tmpfs"; }
  std::string options() const override;
  Result<struct statfs> statfs() override;

  // The root directory: made once, by whoever mounts this.
  Ref<TmpfsInode> make_root(uint32_t mode, uint32_t uid, uint32_t gid);
  Ref<TmpfsInode> make_inode(const NewNode& node);
  // With a number of the caller's choice (a copied-up file keeps its own).
  Ref<TmpfsInode> make_inode(const NewNode& node, uint64_t ino);
  // ENOSPC when there are too many inodes or names: each costs the sentry memory of its own.
  Result<void> check_inodes() const {
    if (inodes_ >= max_inodes_ || names_ >= max_inodes_) return Err(ENOSPC);
    if (sandbox_ && sandbox_->available() == 0) return Err(ENOSPC);
    return {};
  }
  uint64_t inode_count() const { return inodes_; }
  PageQuota& quota() { return *quota_; }

 private:
  friend class TmpfsInode;
  // Charges the sandbox, not this file system's blocks, for the sentry's memory of inodes and
  // names.
  void account_nodes();

  Ref<PageQuota> sandbox_;
  Ref<PageQuota> quota_;
  uint64_t node_pages_ = 0;
  uint64_t next_ino_;
  uint64_t inodes_ = 0;
  uint64_t names_ = 0;
  uint64_t max_inodes_;
};

class TmpfsInode : public Inode {
 public:
  TmpfsInode(Tmpfs& fs, const NewNode& node, uint64_t ino);
  ~TmpfsInode() override;

  uint32_t type() const override { return attr_.mode & S_IFMT; }
  uint64_t ino() const { return attr_.ino; }
  Result<Attr> getattr() override;
  Result<void> setattr(const SetAttr& changes) override;

  Result<Ref<Inode>> find(std::string_view name) override;
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
  Result<size_t> write_at(int64_t pos, std::span<const char> buffer) override;
  Result<std::string> getxattr(std::string_view name) override;
  Result<void> setxattr(std::string_view name, std::string_view value, int flags) override;
  Result<void> removexattr(std::string_view name) override;
  Result<std::vector<std::string>> listxattr() override;

  // For the overlay and for set-up, which work on inodes alone.
  TmpfsInode* child(std::string_view name) const;
  const std::map<std::string, Ref<TmpfsInode>, std::less<>>& children() const { return children_; }
  // Names an inode that was made with make_inode (replaces nothing: EEXIST).
  Result<void> attach(std::string_view name, Ref<TmpfsInode> inode);
  // Takes the name away, whatever it is.
  void detach(std::string_view name);
  Attr& attr() { return attr_; }  // size and blocks in it are not kept
  FileData& data() { return *data_; }
  // ENOSPC.
  Result<void> set_link_target(std::string target);
  const std::string& link_target() const { return link_target_; }

  void touch_modified();
  void touch_accessed();

 protected:
  Tmpfs& tmpfs() const { return static_cast<Tmpfs&>(fs()); }

 private:
  friend class TmpfsFile;
  Result<Ref<Inode>> make(std::string_view name, const NewNode& node, std::string_view target);

  // Charges the quota for long link targets and attributes. ENOSPC.
  Result<void> charge_extra(size_t bytes);
  size_t xattr_bytes() const;
  void bury_children();

  Attr attr_;
  std::unique_ptr<FileData> data_;  // regular files
  uint64_t extra_pages_ = 0;
  std::string link_target_;
  std::map<std::string, Ref<TmpfsInode>, std::less<>> children_;
  std::map<std::string, std::string, std::less<>> xattrs_;
};

class TmpfsFile final : public SeekableFile {
 public:
  TmpfsFile(Path path, int flags, Ref<TmpfsInode> inode)
      : SeekableFile(std::move(path), flags), inode_(std::move(inode)) {}
  Inode* inode() const override { return File::inode() ? File::inode() : inode_.get(); }
  Result<size_t> pread(Task& task, IoSink& sink, int64_t pos) override;
  Result<size_t> pwrite(Task& task, IoSource& source, int64_t pos) override;
  Result<size_t> write(Task& task, IoSource& source) override;
  Result<MappableFd> mappable_fd(Task& task, int prot, bool shared) override;
  Result<void> truncate(Task& task, int64_t size) override;
  Result<void> allocate(Task& task, int mode, int64_t offset, int64_t length) override;
  Result<void> sync(Task&, bool) override { return {}; }

 protected:
  Result<uint64_t> file_size() override { return inode_->data().size(); }
  Result<int64_t> seek_data_hole(int64_t offset, bool hole, int64_t size) override;

 private:
  Ref<TmpfsInode> inode_;
};

}  // namespace uks
