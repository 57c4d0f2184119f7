// memfd_create(2): one host memfd per object, so that mappings, sparseness and seals are the host's
// own.
#pragma once
#include <string>

#include "platform/base/unique_fd.h"
#include "platform/keeper/channel.h"
#include "sentry/fs/tmpfs/charged_memfd.h"
#include "sentry/vfs/file.h"
#include "sentry/vfs/inode.h"

namespace uks {

class MemfdInode final : public Inode {
 public:
  MemfdInode(UniqueFd fd, std::string name, const Attr& attr, Ref<PageQuota> quota);
  int fd() const { return host_.fd(); }
  ChargedMemfd& host() { return host_; }
  // A descriptor that cannot write, for those who may only read (HAZARDS S6).
  Result<int> read_only_fd(keeper::Channel& keeper);
  const std::string& name() const { return name_; }

  uint32_t type() const override { return S_IFREG; }
  Result<Attr> getattr() override;
  Result<void> setattr(const SetAttr& changes) override;
  Result<Ref<File>> open(Task& task, const Path& path, int flags) override;
  Result<size_t> read_at(int64_t pos, std::span<char> buffer) override;
  Result<size_t> write_at(int64_t pos, std::span<const char> buffer) override;
  // At the end, wherever that is when the host looks.
  Result<size_t> append(std::span<const char> buffer);

 private:
  ChargedMemfd host_;
  UniqueFd read_only_fd_;
  std::string name_;
  Attr attr_;  // what is not the host's: mode, owner, number
};

class MemfdFile final : public File {
 public:
  MemfdFile(Path path, int flags, Ref<MemfdInode> inode)
      : File(std::move(path), flags), inode_(std::move(inode)) {}
  ~MemfdFile() override;

  Inode* inode() const override { return inode_.get(); }
  std::string anonymous_name() const override { return "/memfd:" + inode_->name() + " (deleted)"; }
  FileKind kind() const override { return FileKind::kMemfd; }
  bool seekable() const override { return true; }
  Result<size_t> write(Task& task, IoSource& source) override;
  Result<size_t> pread(Task& task, IoSink& sink, int64_t pos) override;
  Result<size_t> pwrite(Task& task, IoSource& source, int64_t pos) override;
  Result<int64_t> seek(Task& task, int64_t offset, int whence) override;
  Result<MappableFd> mappable_fd(Task& task, int prot, bool shared) override;
  Result<void> truncate(Task& task, int64_t size) override;
  Result<void> allocate(Task& task, int mode, int64_t offset, int64_t length) override;
  Result<void> sync(Task&, bool) override { return {}; }
  Result<Ref<File>> reopen(Task& task, int flags) override;

  MemfdInode& memfd() { return *inode_; }

 private:
  Ref<MemfdInode> inode_;
};

// `flags`: MFD_*. EINVAL: bad flags or a name above 249 bytes.
Result<Ref<File>> make_memfd(Task& task, const std::string& name, unsigned flags);

// F_ADD_SEALS and F_GET_SEALS. EINVAL: not a memfd.
Result<int64_t> memfd_fcntl(Task& task, File& file, int command, uint64_t arg);

}  // namespace uks
