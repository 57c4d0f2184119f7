// The file system of nameless objects.
#include "sentry/vfs/anon.h"

#include "sentry/task/task.h"

namespace uks {
namespace {

class AnonFs final : public FileSystem {
 public:
  const char* type() const override { return "anon_inodefs"; }
  Result<struct statfs> statfs() override {
    struct statfs s{};
    s.f_type = 0x09041934;  // ANON_INODE_FS_MAGIC
    s.f_bsize = 4096;
    s.f_namelen = 255;
    return s;
  }
};

class AnonInode final : public Inode {
 public:
  AnonInode(FileSystem& fs, const Attr& attr) : Inode(fs), attr_(attr) {}
  uint32_t type() const override { return attr_.mode & S_IFMT; }
  Result<Attr> getattr() override { return attr_; }
  Result<void> setattr(const SetAttr& c) override {
    if (c.size) return Err(EINVAL);
    if (c.mode) attr_.mode = (attr_.mode & S_IFMT) | (*c.mode & 07777);
    if (c.uid) attr_.uid = *c.uid;
    if (c.gid) attr_.gid = *c.gid;
    if (c.atime) attr_.atime = *c.atime;
    if (c.mtime) attr_.mtime = *c.mtime;
    attr_.ctime = now_timespec();
    return {};
  }
  uint64_t number() const { return attr_.ino; }

 private:
  Attr attr_;
};

FileSystem& anon_fs() {
  static FileSystem* const fs = new AnonFs;
  return *fs;
}

uint64_t next_number = 1000;  // under the kernel lock

}  // namespace

Ref<Inode> make_anon_inode(Task& task, uint32_t mode) {
  Attr attr;
  attr.ino = next_number++;
  attr.dev = anon_fs().dev();
  attr.mode = mode;
  attr.uid = task.creds().fsuid;
  attr.gid = task.creds().fsgid;
  attr.atime = attr.mtime = attr.ctime = now_timespec();
  return make_ref<AnonInode>(anon_fs(), attr);
}

uint64_t anon_inode_number(const Inode& inode) {
  return static_cast<const AnonInode&>(inode).number();
}

}  // namespace uks
