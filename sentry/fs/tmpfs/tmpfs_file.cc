// Open tmpfs files.
#include <linux/capability.h>
#include <sys/mman.h>

#include "platform/platform.h"
#include "sentry/fs/tmpfs/tmpfs.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/vfs/permissions.h"

namespace uks {

Result<Ref<File>> TmpfsInode::open(Task&, const Path& path, int flags) {
  if (is_dir()) return make_ref<DirFile>(path, flags);
  if (!data_) return Err(ENXIO);
  return make_ref<TmpfsFile>(path, flags, Ref<TmpfsInode>(this));
}

Result<size_t> TmpfsFile::pread(Task&, IoSink& sink, int64_t pos) {
  if (pos < 0) return Err(EINVAL);
  size_t n = TRY(inode_->data().read(static_cast<uint64_t>(pos), sink));
  if (!(flags() & O_NOATIME)) inode_->touch_accessed();
  return n;
}

Result<size_t> TmpfsFile::pwrite(Task& task, IoSource& source, int64_t pos) {
  if (pos < 0) return Err(EINVAL);
  // pwrite(2), BUGS: O_APPEND appends whatever the offset.
  uint64_t at = appends(source) ? inode_->data().size() : static_cast<uint64_t>(pos);
  size_t n = TRY(inode_->data().write(at, source));
  if (n > 0) {
    inode_->touch_modified();
    uint32_t& mode = inode_->attr().mode;
    if ((mode & (S_ISUID | S_ISGID)) && !task.creds().has_cap(CAP_FSETID))
      mode = mode_without_setid(mode);
  }
  return n;
}

Result<size_t> TmpfsFile::write(Task& task, IoSource& source) {
  if (appends(source)) pos = static_cast<int64_t>(inode_->data().size());
  size_t n = TRY(pwrite(task, source, pos));
  pos += static_cast<int64_t>(n);
  return n;
}

Result<MappableFd> TmpfsFile::mappable_fd(Task& task, int, bool) {
  auto mapping = writable() ? inode_->data().memfd()
                            : inode_->data().read_only_memfd(task.kernel().platform->keeper());
  if (!mapping) return Err(mapping.error() == ENOSPC ? Errno{ENOMEM} : mapping.error());
  MappableFd m;
  m.fd = mapping->fd;
  m.shared_key = true;
  m.pages = std::move(mapping->pages);
  return m;
}

Result<void> TmpfsFile::truncate(Task&, int64_t size) {
  SetAttr changes;
  changes.size = static_cast<uint64_t>(size);
  return inode_->setattr(changes);
}

Result<void> TmpfsFile::allocate(Task&, int mode, int64_t offset, int64_t length) {
  TRY(inode_->data().allocate(mode, static_cast<uint64_t>(offset), static_cast<uint64_t>(length)));
  inode_->touch_modified();
  return {};
}

Result<int64_t> TmpfsFile::seek_data_hole(int64_t offset, bool hole, int64_t) {
  return inode_->data().seek(static_cast<uint64_t>(offset), hole);
}

}  // namespace uks
