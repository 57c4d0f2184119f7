// read, write and their vectored and positioned kin; lseek.
#include <linux/fs.h>

#include "gen/syscalls.h"
#include "sentry/net/socket.h"
#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/time/clock.h"
#include "sentry/usermem/guest_io.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/notify.h"
#include "syscalls/file_io.h"

#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20
#endif

namespace uks {
namespace {

uint64_t total_of(const UserIovec& ranges) {
  uint64_t n = 0;
  for (const iovec& v : ranges) n += v.iov_len;
  return n;
}

// Cuts `skip` bytes off the front and everything beyond `limit` bytes after that.
void trim(UserIovec& ranges, uint64_t skip, uint64_t limit) {
  UserIovec out;
  for (iovec v : ranges) {
    uint64_t cut = std::min<uint64_t>(skip, v.iov_len);
    skip -= cut;
    v.iov_base = static_cast<char*>(v.iov_base) + cut;
    v.iov_len = std::min<uint64_t>(v.iov_len - cut, limit);
    limit -= v.iov_len;
    if (v.iov_len) out.push_back(v);
  }
  ranges = std::move(out);
}

Result<Ref<File>> readable_file(Task& task, int fd) {
  Ref<File> file = TRY(task.call_file(fd));
  if (!file->readable()) return Err(EBADF);
  return file;
}

Result<Ref<File>> writable_file(Task& task, int fd) {
  Ref<File> file = TRY(task.call_file(fd));
  if (!file->writable()) return Err(EBADF);
  return file;
}

// A stream is refused before its access mode is looked at (ksys_pread64(), do_preadv()).
Result<Ref<File>> positioned_file(Task& task, int fd, int64_t pos) {
  if (pos < 0) return Err(EINVAL);
  Ref<File> file = TRY(task.call_file(fd));
  if (file->flags() & O_PATH) return Err(EBADF);
  if (!file->positioned()) return Err(ESPIPE);
  return file;
}

Result<Ref<File>> file_to_pread(Task& task, int fd, int64_t pos) {
  Ref<File> file = TRY(positioned_file(task, fd, pos));
  if (!file->readable()) return Err(EBADF);
  return file;
}

Result<Ref<File>> file_to_pwrite(Task& task, int fd, int64_t pos) {
  Ref<File> file = TRY(positioned_file(task, fd, pos));
  if (!file->writable()) return Err(EBADF);
  return file;
}

// Waits on the file's queue for `events`; under a socket's time-out a signal is EINTR
// (sock_intr_errno()). Returns what the handler answers.
Errno wait_for_file(Task& task, File& file, uint32_t events) {
  std::optional<MonotonicNs> timeout;
  if (file.kind() == FileKind::kSocket) {
    const Socket& socket = static_cast<SocketFile&>(file).socket();
    timeout = events & EPOLLOUT ? socket.send_timeout() : socket.receive_timeout();
  }
  if (!timeout) return task.block({{file.wait_queue_for(task), events}});
  CallState& call = task.call();
  if (call.timed_out || *timeout == 0) return Errno{EAGAIN};
  if (!call.deadline) call.deadline = deadline_from_relative_ns(*timeout);
  return task.block({{file.wait_queue_for(task), events}}, call.deadline, EINTR);
}

constexpr size_t kStreamAhead = 65536;

// What a read gave goes to the guest. What does not arrive goes back where the file can take it.
Result<size_t> deliver(Task& task, File& file, GuestSink& sink, size_t n, bool own_position) {
  auto arrived = sink.deliver(n);
  const size_t lost = n - arrived.value_or(0);
  if (lost == 0 || task.dead || !own_position) return arrived;
  // A message is whole or lost.
  if (file.kind() == FileKind::kSocket && !static_cast<SocketFile&>(file).socket().is_stream())
    return Err(EFAULT);
  if (file.seekable()) {
    (void)file.seek(task, -static_cast<int64_t>(lost), SEEK_CUR);
  } else {
    file.take_back(sink.undelivered());
  }
  return arrived;
}

constexpr int kRwfKnown = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND | RWF_NOAPPEND;

}  // namespace

Result<UserIovec> one_range(UserAddr buffer, uint64_t count) {
  // access_ok()
  constexpr uint64_t kUserEnd = 0x7ffffffff000;
  if (count > kUserEnd || buffer.value > kUserEnd - count) return Err(EFAULT);
  UserIovec v;
  iovec range{};
  range.iov_base = reinterpret_cast<void*>(buffer.value);
  range.iov_len = std::min(count, kMaxRwCount);
  v.push_back(range);
  return v;
}

Result<uint64_t> apply_file_size_limit(Task& task, File& file, int64_t pos, uint64_t count) {
  rlim64_t limit = task.group().limits[RLIMIT_FSIZE].rlim_cur;
  if (limit == RLIM64_INFINITY || !file.inode() || !file.inode()->is_regular()) return count;
  if (file.flags() & O_APPEND) pos = static_cast<int64_t>(TRY(file.inode()->getattr()).size);
  if (static_cast<uint64_t>(pos) >= limit && count > 0) {
    SignalInfo info;
    info.signo = SIGXFSZ;
    info.code = SI_KERNEL;
    task.kernel().send_signal(task, info);
    return Err(EFBIG);
  }
  return std::min<uint64_t>(count, limit - static_cast<uint64_t>(pos));
}

Result<int64_t> do_read(Task& task, File& file, UserIovec ranges, std::optional<int64_t> pos,
                        int rwf) {
  GuestSink sink(task, std::move(ranges));
  uint64_t done = 0;
  Result<size_t> r = size_t{0};
  for (;;) {
    r = pos ? file.pread(task, sink, *pos + static_cast<int64_t>(done)) : file.read(task, sink);
    const bool filled = sink.remaining() == 0;
    if (r) r = deliver(task, file, sink, *r, !pos);
    if (!r) break;
    done += *r;
    // The sink takes only so much at a time. The next bytes of a socket may be another message.
    if (!filled || *r == 0 || sink.remaining() == 0 || file.kind() == FileKind::kSocket) break;
    const bool is_regular = file.inode() && file.inode()->is_regular();
    if (!is_regular && task.has_deliverable_signal()) break;
  }
  if (done > 0) notify::file(file, IN_ACCESS);
  if (r || done > 0) return static_cast<int64_t>(done);
  if (r.error() == EAGAIN && !file.nonblocking() && !(rwf & RWF_NOWAIT) && file.wait_queue())
    return Err(wait_for_file(task, file, EPOLLIN));
  return Err(r.error());
}

Result<int64_t> do_write(Task& task, File& file, UserIovec ranges, std::optional<int64_t> pos,
                         int rwf) {
  uint64_t& done = task.call().progress;
  uint64_t total = total_of(ranges);
  if (done == 0) {
    int64_t at = pos ? *pos : file.pos;
    total = TRY(apply_file_size_limit(task, file, at, total));
  }
  trim(ranges, done, total - std::min(done, total));
  GuestSource source(task, std::move(ranges));
  if (rwf & (RWF_APPEND | RWF_NOAPPEND)) source.append = (rwf & RWF_APPEND) != 0;
  // Not more than is likely to be taken.
  const size_t ahead = file.inode() && file.inode()->is_regular() ? Staging::kKept : kStreamAhead;
  bool once = total == 0;
  while (once || source.remaining() > 0) {
    once = false;
    auto r = with_fetched(source, ahead, [&] {
      return pos ? file.pwrite(task, source, *pos + static_cast<int64_t>(done))
                 : file.write(task, source);
    });
    if (!r) {
      if (r.error() == EAGAIN && !file.nonblocking() && !(rwf & RWF_NOWAIT) && file.wait_queue()) {
        Errno e = wait_for_file(task, file, EPOLLOUT);
        if (e == kBlocked || done == 0) return Err(e);
        break;
      }
      if (done == 0) return Err(r.error());
      break;
    }
    if (*r == 0) break;
    done += *r;
    // Pipes copy under the kernel lock, a piece a time; what is beyond PIPE_BUF is not atomic
    // anyway.
    if (file.kind() == FileKind::kPipe && source.remaining() > 0) yield_kernel_lock();
  }
  if (done > 0) notify::file(file, IN_MODIFY);
  if (done > 0 && (file.flags() & (O_DSYNC | O_SYNC) || rwf & (RWF_DSYNC | RWF_SYNC))) {
    if (file.inode() && file.inode()->is_regular())
      TRY(file.sync(task, !((file.flags() & O_SYNC) == O_SYNC || rwf & RWF_SYNC)));
  }
  return static_cast<int64_t>(done);
}

Result<int64_t> sys_read(Task& task, int fd, UserOut buf, uint64_t count) {
  Ref<File> file = TRY(readable_file(task, fd));
  return do_read(task, *file, TRY(one_range(buf, count)), {});
}

Result<int64_t> sys_write(Task& task, int fd, UserIn buf, uint64_t count) {
  Ref<File> file = TRY(writable_file(task, fd));
  return do_write(task, *file, TRY(one_range(buf, count)), {});
}

Result<int64_t> sys_pread64(Task& task, int fd, UserOut buf, uint64_t count, int64_t offset) {
  Ref<File> file = TRY(file_to_pread(task, fd, offset));
  return do_read(task, *file, TRY(one_range(buf, count)), offset);
}

Result<int64_t> sys_pwrite64(Task& task, int fd, UserIn buf, uint64_t count, int64_t offset) {
  Ref<File> file = TRY(file_to_pwrite(task, fd, offset));
  return do_write(task, *file, TRY(one_range(buf, count)), offset);
}

Result<int64_t> sys_readv(Task& task, int fd, UserIn iov, uint64_t iovcnt) {
  Ref<File> file = TRY(readable_file(task, fd));
  if (iovcnt > UIO_MAXIOV) return Err(EINVAL);
  return do_read(task, *file, TRY(task.copy_in_iovec(iov, static_cast<int>(iovcnt))), {});
}

Result<int64_t> sys_writev(Task& task, int fd, UserIn iov, uint64_t iovcnt) {
  Ref<File> file = TRY(writable_file(task, fd));
  if (iovcnt > UIO_MAXIOV) return Err(EINVAL);
  return do_write(task, *file, TRY(task.copy_in_iovec(iov, static_cast<int>(iovcnt))), {});
}

// On 64-bit machines the low half is the whole offset (pos_from_hilo() in fs/read_write.c).
Result<int64_t> sys_preadv(Task& task, int fd, UserIn iov, uint64_t iovcnt, uint64_t pos_low,
                           uint64_t pos_high) {
  (void)pos_high;
  int64_t pos = static_cast<int64_t>(pos_low);
  Ref<File> file = TRY(file_to_pread(task, fd, pos));
  if (iovcnt > UIO_MAXIOV) return Err(EINVAL);
  return do_read(task, *file, TRY(task.copy_in_iovec(iov, static_cast<int>(iovcnt))), pos);
}

Result<int64_t> sys_pwritev(Task& task, int fd, UserIn iov, uint64_t iovcnt, uint64_t pos_low,
                            uint64_t pos_high) {
  (void)pos_high;
  int64_t pos = static_cast<int64_t>(pos_low);
  Ref<File> file = TRY(file_to_pwrite(task, fd, pos));
  if (iovcnt > UIO_MAXIOV) return Err(EINVAL);
  return do_write(task, *file, TRY(task.copy_in_iovec(iov, static_cast<int>(iovcnt))), pos);
}

Result<int64_t> sys_preadv2(Task& task, int fd, UserIn iov, uint64_t iovcnt, uint64_t pos_low,
                            uint64_t pos_high, int flags) {
  if (flags & ~kRwfKnown) return Err(EOPNOTSUPP);
  if (static_cast<int64_t>(pos_low) != -1) {
    if (!(flags & RWF_NOWAIT)) return sys_preadv(task, fd, iov, iovcnt, pos_low, pos_high);
  }
  std::optional<int64_t> pos;
  if (static_cast<int64_t>(pos_low) != -1) pos = static_cast<int64_t>(pos_low);
  Ref<File> file = TRY(pos ? file_to_pread(task, fd, *pos) : readable_file(task, fd));
  if (iovcnt > UIO_MAXIOV) return Err(EINVAL);
  return do_read(task, *file, TRY(task.copy_in_iovec(iov, static_cast<int>(iovcnt))), pos, flags);
}

Result<int64_t> sys_pwritev2(Task& task, int fd, UserIn iov, uint64_t iovcnt, uint64_t pos_low,
                             uint64_t pos_high, int flags) {
  (void)pos_high;
  if (flags & ~kRwfKnown) return Err(EOPNOTSUPP);
  if ((flags & RWF_APPEND) && (flags & RWF_NOAPPEND)) return Err(EINVAL);
  std::optional<int64_t> pos;
  if (static_cast<int64_t>(pos_low) != -1) pos = static_cast<int64_t>(pos_low);
  Ref<File> file = TRY(pos ? file_to_pwrite(task, fd, *pos) : writable_file(task, fd));
  if (iovcnt > UIO_MAXIOV) return Err(EINVAL);
  return do_write(task, *file, TRY(task.copy_in_iovec(iov, static_cast<int>(iovcnt))), pos, flags);
}

Result<int64_t> sys_lseek(Task& task, int fd, int64_t offset, int whence) {
  Ref<File> file = TRY(task.fds().get_io(fd));
  if (whence < SEEK_SET || whence > SEEK_HOLE) return Err(EINVAL);
  return file->seek(task, offset, whence);
}

}  // namespace uks
