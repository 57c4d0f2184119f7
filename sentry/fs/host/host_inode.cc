// Inodes of passed-through host files.
#include "sentry/fs/host/host_inode.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "sentry/fs/host/host_file.h"

namespace uks {
namespace {

class HostFs final : public FileSystem {
 public:
  const char* type() const override { return "hostfs"; }
  Result<struct statfs> statfs() override {
    struct statfs s{};
    s.f_type = 0x00c0ffee;  // HOSTFS_SUPER_MAGIC
    s.f_bsize = 4096;
    s.f_namelen = 255;
    return s;
  }
};

FileSystem& host_fs() {
  static FileSystem* const fs = new HostFs;
  return *fs;
}

class HostInode final : public Inode {
 public:
  explicit HostInode(HostStream& stream) : Inode(host_fs()), stream_(&stream) {
    struct stat st{};
    fstat(stream.fd(), &st);
    type_ = st.st_mode & S_IFMT;
  }
  uint32_t type() const override { return type_; }
  Result<Attr> getattr() override;
  // /dev/pts/N leads here.
  Result<Ref<File>> open(Task&, const Path& path, int flags) override {
    if (!stream_) return Err(ENXIO);
    return open_host_stream(Ref<HostStream>(stream_), path, flags);
  }
  void detach() { stream_ = nullptr; }

 private:
  HostStream* stream_;
  uint32_t type_;
};

Result<Attr> HostInode::getattr() {
  if (!stream_) return Err(ENXIO);
  struct stat st{};
  if (fstat(stream_->fd(), &st) < 0) return HostErr();
  Attr attr;
  attr.ino = st.st_ino;
  attr.dev = fs().dev();
  attr.mode = st.st_mode;
  attr.nlink = static_cast<uint32_t>(st.st_nlink);
  attr.uid = st.st_uid;
  attr.gid = st.st_gid;
  attr.rdev = st.st_rdev;
  attr.size = static_cast<uint64_t>(st.st_size);
  attr.blocks = static_cast<uint64_t>(st.st_blocks);
  attr.blksize = static_cast<uint32_t>(st.st_blksize);
  attr.atime = st.st_atim;
  attr.mtime = st.st_mtim;
  attr.ctime = st.st_ctim;
  return attr;
}

}  // namespace

Ref<Inode> make_host_inode(HostStream& stream) { return make_ref<HostInode>(stream); }

void detach_host_inode(Inode& inode) { static_cast<HostInode&>(inode).detach(); }

}  // namespace uks
