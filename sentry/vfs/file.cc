// Defaults of open file descriptions: what an object that lacks an operation answers.
#include "sentry/vfs/file.h"

#include "sentry/fs/epoll/epoll.h"
#include "sentry/vfs/locks.h"
#include "sentry/vfs/notify.h"
#include "sentry/vfs/ops.h"

namespace uks {

Result<Ref<File>> open_fifo(Task& task, Path path, Ref<RefCounted>& state_slot,
                            int flags);  // sentry/fs/pipe

File::~File() {
  if (announced_)
    notify::place(path_, (flags_ & O_ACCMODE) != O_RDONLY ? IN_CLOSE_WRITE : IN_CLOSE_NOWRITE);
  if (epoll_items) forget_epoll_items(*this);
  // The description's own locks (flock, OFD) end with it.
  if (locks_taken_) {
    if (FileLocks* locks = lock_inode_ ? lock_inode_->locks_if_any() : nullptr)
      locks->release_description(*this);
  }
}

void File::announce() {
  if (flags_ & O_PATH || !path_) return;
  announced_ = true;
  notify::place(path_, IN_OPEN);
}

Inode* File::inode() const { return path_ ? path_.dentry->inode() : nullptr; }

Result<size_t> File::read(Task& task, IoSink& sink) {
  if (!seekable()) return Err(EINVAL);
  size_t n = TRY(pread(task, sink, pos));
  pos += static_cast<int64_t>(n);
  return n;
}

Result<size_t> File::write(Task& task, IoSource& source) {
  if (!seekable()) return Err(EINVAL);
  size_t n = TRY(pwrite(task, source, pos));
  pos += static_cast<int64_t>(n);
  return n;
}

Result<size_t> File::pread(Task&, IoSink&, int64_t) { return Err(ESPIPE); }
Result<size_t> File::pwrite(Task&, IoSource&, int64_t) { return Err(ESPIPE); }
Result<int64_t> File::seek(Task&, int64_t, int) { return Err(ESPIPE); }
Result<void> File::iterate(Task&, const DirentSink&) { return Err(ENOTDIR); }
Result<int64_t> File::ioctl(Task&, uint32_t, uint64_t) { return Err(ENOTTY); }
Result<MappableFd> File::mappable_fd(Task&, int, bool) { return Err(ENODEV); }
Result<void> File::truncate(Task&, int64_t) { return Err(EINVAL); }
Result<void> File::allocate(Task&, int, int64_t, int64_t) { return Err(ESPIPE); }
Result<void> File::sync(Task&, bool) { return Err(EINVAL); }

Result<Ref<File>> File::reopen(Task& task, int flags) {
  if (path_.mount) return open_place(task, path_, flags);
  Inode* node = inode();
  if (node && node->type() == S_IFIFO && node->special)
    return open_fifo(task, path_, node->special, flags);
  return Err(ENXIO);
}

}  // namespace uks
