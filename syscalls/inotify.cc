// inotify_init, inotify_init1, inotify_add_watch, inotify_rm_watch.
#include "sentry/fs/inotify/inotify.h"

#include "gen/syscalls.h"
#include "sentry/task/kernel.h"
#include "sentry/vfs/anon.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/ops.h"
#include "sentry/vfs/permissions.h"

namespace uks {
namespace {

Result<Ref<InotifyFile>> instance(Task& task, int fd) {
  Ref<File> file = TRY(task.fds().get_io(fd));
  if (file->kind() != FileKind::kInotify) return Err(EINVAL);
  return Ref<InotifyFile>(static_cast<InotifyFile*>(file.get()));
}

}  // namespace

Result<int64_t> sys_inotify_init1(Task& task, int flags) {
  if (flags & ~(IN_CLOEXEC | IN_NONBLOCK)) return Err(EINVAL);
  auto file = TRY(InotifyFile::make(O_RDONLY | (flags & IN_NONBLOCK), make_anon_inode(task, 0600),
                                    task.kernel().pages));
  return task.fds().install(task, std::move(file), flags & IN_CLOEXEC);
}

Result<int64_t> sys_inotify_init(Task& task) { return sys_inotify_init1(task, 0); }

Result<int64_t> sys_inotify_add_watch(Task& task, int fd, UserPath path, uint32_t mask) {
  constexpr uint32_t kOptions = IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK | IN_MASK_CREATE |
                                IN_MASK_ADD | IN_ISDIR | IN_ONESHOT;
  constexpr uint32_t kReported = IN_UNMOUNT | IN_Q_OVERFLOW | IN_IGNORED;
  if (!(mask & (IN_ALL_EVENTS | kReported | kOptions))) return Err(EINVAL);
  TRY(task.fds().get_io(fd));
  if ((mask & IN_MASK_ADD) && (mask & IN_MASK_CREATE)) return Err(EINVAL);
  const Ref<InotifyFile> watcher = TRY(instance(task, fd));
  const uint64_t walk =
      (mask & IN_DONT_FOLLOW ? 0 : kFollowLast) | (mask & IN_ONLYDIR ? kMustBeDir : 0);
  const Path place = TRY(resolve_at(task, AT_FDCWD, path, walk));
  TRY(check_place(task, place, kMayRead));
  return TRY(watcher->watch(place.dentry->inode_ref(), mask));
}

Result<int64_t> sys_inotify_rm_watch(Task& task, int fd, int wd) {
  const Ref<InotifyFile> watcher = TRY(instance(task, fd));
  TRY(watcher->unwatch(wd));
  return 0;
}

}  // namespace uks
