// Defaults of inodes and file systems: what a file system that lacks an operation answers.
#include "sentry/vfs/inode.h"

#include <sys/sysmacros.h>

#include "sentry/vfs/file.h"
#include "sentry/vfs/locks.h"

namespace uks {

namespace {
unsigned next_minor =
    30;  // under the kernel lock; low ones look like a system's own pseudo devices
}

FileSystem::FileSystem() : dev_(makedev(0, next_minor++)) {}

timespec now_timespec() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t;
}

Inode::Inode(FileSystem& fs) : fs_(&fs) {}
Inode::~Inode() = default;

FileLocks& Inode::locks() {
  if (!locks_) locks_ = std::make_unique<FileLocks>();
  return *locks_;
}

Result<void> Inode::setattr(const SetAttr&) { return Err(EPERM); }
Result<Ref<Inode>> Inode::lookup(Task&, std::string_view name) { return find(name); }
Result<Ref<Inode>> Inode::find(std::string_view) { return Err(ENOTDIR); }
Result<Ref<Inode>> Inode::mknod(std::string_view, const NewNode&) { return Err(EPERM); }
Result<Ref<Inode>> Inode::mkdir(std::string_view, const NewNode&) { return Err(EPERM); }
Result<Ref<Inode>> Inode::symlink(std::string_view, std::string_view, const NewNode&) {
  return Err(EPERM);
}
Result<void> Inode::link(std::string_view, Inode&) { return Err(EPERM); }
Result<void> Inode::unlink(std::string_view, Inode&) { return Err(EPERM); }
Result<void> Inode::rmdir(std::string_view, Inode&) { return Err(EPERM); }
Result<void> Inode::rename(std::string_view, Inode&, Inode&, std::string_view, Inode*, unsigned) {
  return Err(EPERM);
}
Result<Ref<Inode>> Inode::create_unnamed(const NewNode&) { return Err(EOPNOTSUPP); }
Result<std::vector<DirEntry>> Inode::read_dir(Task&) { return list(); }
Result<std::vector<DirEntry>> Inode::list() { return Err(ENOTDIR); }
Result<std::string> Inode::readlink(Task&) { return link_text(); }
Result<std::string> Inode::link_text() { return Err(EINVAL); }
Result<Path> Inode::follow_magic(Task&) { return Err(EINVAL); }
Result<Ref<File>> Inode::open_magic(Task&, int) { return Err(ENXIO); }
Result<Ref<File>> Inode::open(Task&, const Path&, int) { return Err(ENXIO); }
Result<size_t> Inode::read_at(int64_t, std::span<char>) { return Err(EINVAL); }
Result<size_t> Inode::write_at(int64_t, std::span<const char>) { return Err(EINVAL); }
Result<std::string> Inode::getxattr(std::string_view) { return Err(EOPNOTSUPP); }
Result<void> Inode::setxattr(std::string_view, std::string_view, int) { return Err(EOPNOTSUPP); }
Result<void> Inode::removexattr(std::string_view) { return Err(EOPNOTSUPP); }
Result<std::vector<std::string>> Inode::listxattr() { return std::vector<std::string>(); }

}  // namespace uks
