// close, dup, fcntl, flock, close_range.
#include <linux/close_range.h>
#include <sys/file.h>

#include "gen/syscalls.h"
#include "sentry/task/kernel.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/locks.h"
#include "sentry/vfs/ops.h"

#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY 1027
#endif

namespace uks {

// sentry/fs/pipe, sentry/fs/memfd.
Result<int64_t> pipe_fcntl(Task& task, File& file, int command, uint64_t arg);
Result<int64_t> memfd_fcntl(Task& task, File& file, int command, uint64_t arg);

namespace {

// struct flock of x86-64.
struct GuestFlock {
  int16_t type;
  int16_t whence;
  int32_t pad = 0;
  int64_t start;
  int64_t length;
  int32_t pid;
  int32_t pad2 = 0;
};
static_assert(sizeof(GuestFlock) == 32);

// flock_to_posix_lock() of fs/locks.c.
Result<RecordLock> record_of(Task& task, File& file, const GuestFlock& f, bool ofd) {
  int64_t base = 0;
  switch (f.whence) {
    case SEEK_SET:
      break;
    case SEEK_CUR:
      base = file.pos;
      break;
    case SEEK_END:
      base = static_cast<int64_t>(TRY(file.inode()->getattr()).size);
      break;
    default:
      return Err(EINVAL);
  }
  RecordLock lock;
  if (__builtin_add_overflow(base, f.start, &lock.start)) return Err(EOVERFLOW);
  if (f.length > 0) {
    if (__builtin_add_overflow(lock.start, f.length - 1, &lock.end)) return Err(EOVERFLOW);
  } else if (f.length < 0) {
    lock.end = lock.start - 1;
    lock.start += f.length;
  }
  if (lock.start < 0) return Err(EINVAL);
  if (f.type != F_RDLCK && f.type != F_WRLCK && f.type != F_UNLCK) return Err(EINVAL);
  lock.exclusive = f.type == F_WRLCK;
  lock.owner =
      ofd ? static_cast<const void*>(&file) : static_cast<const void*>(task.fd_table.get());
  lock.pid = ofd ? -1 : task.tgid();
  return lock;
}

Result<int64_t> get_lock(Task& task, File& file, UserAddr arg, bool ofd) {
  auto f = TRY(task.copy_in<GuestFlock>(arg));
  if (ofd && f.pid != 0) return Err(EINVAL);
  if (f.type == F_UNLCK && !ofd) return Err(EINVAL);
  RecordLock wanted = TRY(record_of(task, file, f, ofd));
  const RecordLock* held = file.inode()->locks().conflict(wanted);
  if (!held) {
    f.type = F_UNLCK;
  } else {
    f.type = held->exclusive ? F_WRLCK : F_RDLCK;
    f.whence = SEEK_SET;
    f.start = held->start;
    f.length = held->end == INT64_MAX ? 0 : held->end - held->start + 1;
    f.pid = held->pid;
  }
  TRY(task.copy_out(arg, f));
  return 0;
}

Result<int64_t> set_lock(Task& task, int fd, File& file, UserAddr arg, bool ofd, bool wait) {
  task.call().data.reset();  // no longer waiting
  auto f = TRY(task.copy_in<GuestFlock>(arg));
  if (ofd && f.pid != 0) return Err(EINVAL);
  RecordLock wanted = TRY(record_of(task, file, f, ofd));
  if (f.type == F_RDLCK && !file.readable()) return Err(EBADF);
  if (f.type == F_WRLCK && !file.writable()) return Err(EBADF);
  // Closed while the argument came in: nobody would take the lock away (fcntl_setlk() in the
  // kernel).
  if (TRY(task.fds().get_io(fd)).get() != &file) return Err(EBADF);
  FileLocks& locks = file.inode()->locks();
  if (f.type == F_UNLCK) {
    TRY(locks.unlock(wanted.owner, wanted.start, wanted.end));
    return 0;
  }
  auto r = locks.set(wanted);
  if (!r) {
    if (!wait || r.error() != EAGAIN) return Err(r.error());
    const void* blocker = locks.conflict(wanted)->owner;
    if (!ofd && LockWait::would_deadlock(wanted.owner, blocker)) return Err(EDEADLK);
    Errno e = task.block({{&locks.queue(), EPOLLIN}});
    if (e == kBlocked) task.call().data = std::make_unique<LockWait>(wanted.owner, blocker);
    return Err(e);
  }
  if (ofd) file.note_locks(Ref<Inode>(file.inode()));
  return 0;
}

Result<int64_t> lock_command(Task& task, int fd, File& file, int cmd, UserAddr arg) {
  if (!file.inode()) return Err(EBADF);
  switch (cmd) {
    case F_GETLK:
      return get_lock(task, file, arg, false);
    case F_OFD_GETLK:
      return get_lock(task, file, arg, true);
    case F_SETLK:
    case F_SETLKW:
      return set_lock(task, fd, file, arg, false, cmd == F_SETLKW);
    default:
      return set_lock(task, fd, file, arg, true, cmd == F_OFD_SETLKW);
  }
}

struct OwnerEx {
  int32_t type;
  int32_t pid;
};

}  // namespace

Result<int64_t> sys_close(Task& task, int fd) {
  TRY(task.fds().close(task, fd));
  return 0;
}

Result<int64_t> sys_close_range(Task& task, uint32_t first, uint32_t last, uint32_t flags) {
  if (flags & ~(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC)) return Err(EINVAL);
  if (first > last) return Err(EINVAL);
  if ((flags & CLOSE_RANGE_UNSHARE) && task.fd_table->ref_count() > 1)
    task.fd_table = task.fd_table->clone();
  task.fds().close_range(task, first, last, flags & CLOSE_RANGE_CLOEXEC);
  return 0;
}

Result<int64_t> sys_dup(Task& task, int oldfd) {
  return TRY(task.fds().install(task, TRY(task.fds().get(oldfd)), false));
}

Result<int64_t> sys_dup2(Task& task, int oldfd, int newfd) {
  Ref<File> file = TRY(task.fds().get(oldfd));
  if (oldfd == newfd) return newfd;
  TRY(task.fds().install_at(task, newfd, std::move(file), false));
  return newfd;
}

Result<int64_t> sys_dup3(Task& task, int oldfd, int newfd, int flags) {
  if ((flags & ~O_CLOEXEC) || oldfd == newfd) return Err(EINVAL);
  Ref<File> file = TRY(task.fds().get(oldfd));
  TRY(task.fds().install_at(task, newfd, std::move(file), flags & O_CLOEXEC));
  return newfd;
}

Result<int64_t> sys_fcntl(Task& task, int fd, uint32_t cmd, uint64_t arg) {
  Ref<File> file = TRY(task.fds().get(fd));
  // What an O_PATH descriptor still allows (check_fcntl_cmd() in fs/fcntl.c).
  switch (cmd) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC: {
      // A start beyond the limit is EINVAL here, also where it is 0.
      if (static_cast<int>(arg) < 0 || arg >= task.group().limits[RLIMIT_NOFILE].rlim_cur)
        return Err(EINVAL);
      return TRY(
          task.fds().install(task, std::move(file), cmd == F_DUPFD_CLOEXEC, static_cast<int>(arg)));
    }
    case F_DUPFD_QUERY: {
      Ref<File> other = TRY(task.fds().get(static_cast<int>(arg)));
      return file == other;
    }
    case F_GETFD:
      return TRY(task.fds().cloexec(fd)) ? FD_CLOEXEC : 0;
    case F_SETFD:
      TRY(task.fds().set_cloexec(fd, arg & FD_CLOEXEC));
      return 0;
    case F_GETFL:
      return file->flags();
    default:
      break;
  }
  if (file->flags() & O_PATH) return Err(EBADF);
  switch (cmd) {
    case F_SETFL:
      if ((arg & O_NOATIME) && !(file->flags() & O_NOATIME) && file->inode()) {
        Attr attr = TRY(file->inode()->getattr());
        if (attr.uid != task.creds().fsuid && !task.creds().has_cap(3 /* CAP_FOWNER */))
          return Err(EPERM);
      }
      file->set_status_flags(static_cast<int>(arg));
      return 0;
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
      file = TRY(task.call_file(fd));
      return lock_command(task, fd, *file, static_cast<int>(cmd), UserAddr{arg});
    case F_GETOWN:
      return file->owner;
    case F_SETOWN:
      file->owner = static_cast<int32_t>(arg);
      return 0;
    case F_GETOWN_EX: {
      OwnerEx o{file->owner < 0 ? F_OWNER_PGRP : F_OWNER_PID, std::abs(file->owner)};
      TRY(task.copy_out(UserAddr{arg}, o));
      return 0;
    }
    case F_SETOWN_EX: {
      auto o = TRY(task.copy_in<OwnerEx>(UserAddr{arg}));
      if (o.type < F_OWNER_TID || o.type > F_OWNER_PGRP || o.pid < 0) return Err(EINVAL);
      file->owner = o.type == F_OWNER_PGRP ? -o.pid : o.pid;
      return 0;
    }
    case F_GETSIG:
      return file->async_signal;
    case F_SETSIG:
      if (arg > static_cast<uint64_t>(kSignalCount)) return Err(EINVAL);
      file->async_signal = static_cast<int>(arg);
      return 0;
    case F_GETPIPE_SZ:
    case F_SETPIPE_SZ:
      return pipe_fcntl(task, *file, static_cast<int>(cmd), arg);
    case F_ADD_SEALS:
    case F_GET_SEALS:
      if (file->kind() != FileKind::kMemfd) return Err(EINVAL);
      return memfd_fcntl(task, *file, static_cast<int>(cmd), arg);
    case F_GETLEASE:
      return F_UNLCK;
    case F_SETLEASE:
      // Leases would have to watch the host's opens as well: refused like on a file that others
      // use.
      return Err(EAGAIN);
    default:
      return Err(EINVAL);
  }
}

Result<int64_t> sys_flock(Task& task, int fd, uint32_t operation) {
  Ref<File> file = TRY(task.call_file(fd));
  Ref<Inode> inode(file->inode());
  if (!inode) return Err(EBADF);
  switch (operation & ~static_cast<uint32_t>(LOCK_NB)) {
    case LOCK_UN:
      inode->locks().drop_flock(*file);
      return 0;
    case LOCK_SH:
    case LOCK_EX:
      break;
    default:
      return Err(EINVAL);
  }
  auto r = inode->locks().set_flock(*file, (operation & LOCK_EX) != 0);
  if (!r) {
    if ((operation & LOCK_NB) || r.error() != EWOULDBLOCK) return Err(r.error());
    return Err(task.block({{&inode->locks().queue(), EPOLLIN}}));
  }
  file->note_locks(std::move(inode));
  return 0;
}

}  // namespace uks
