// Transfers on passed-through host files.
#include "sentry/fs/host/host_file.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "sentry/fs/host/host_inode.h"
#include "sentry/fs/pipe/pipe.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/task/task.h"

namespace uks {
namespace {

// At most this much in one host call, and in one guest call.
constexpr size_t kChunk = 1 << 16;
constexpr size_t kCallLimit = 1 << 24;
// A terminal that is ready takes a little without waiting, not any amount.
constexpr size_t kTerminalChunk = 1024;
// For those who found the stream busy with another's transfer.
constexpr uint32_t kTryAgain = EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM;

// Transfers that must not wait even if another process was quicker after our poll. Not all files
// can (EOPNOTSUPP: terminals): those take the plain call.
ssize_t read_now(int fd, uint32_t mode, void* to, size_t n) {
  if (S_ISSOCK(mode)) return recv(fd, to, n, MSG_DONTWAIT);
  if (S_ISFIFO(mode)) {
    iovec iov{.iov_base = to, .iov_len = n};
    const ssize_t r = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
    if (r >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS)) return r;
  }
  return read(fd, to, n);
}

ssize_t write_now(int fd, uint32_t mode, const void* from, size_t n) {
  if (S_ISSOCK(mode)) return send(fd, from, n, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (S_ISFIFO(mode)) {
    iovec iov{.iov_base = const_cast<void*>(from), .iov_len = n};
    const ssize_t r = pwritev2(fd, &iov, 1, -1, RWF_NOWAIT);
    if (r >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS)) return r;
    // A pipe that polls writable has room for PIPE_BUF bytes.
    n = std::min<size_t>(n, 4096);
  }
  return write(fd, from, n);
}

}  // namespace

HostStream::HostStream(EventLoop& loop, UniqueFd fd, std::string name, const struct stat& st,
                       int flags)
    : loop_(loop), fd_(std::move(fd)), name_(std::move(name)), mode_(st.st_mode), flags_(flags) {
  if (name_.empty() && S_ISFIFO(mode_)) name_ = fmt::format("pipe:[{}]", st.st_ino);
  if (name_.empty() && S_ISSOCK(mode_)) name_ = fmt::format("socket:[{}]", st.st_ino);
  // Edge-triggered: it costs nothing while nobody waits. EPERM: always ready.
  watched_ =
      loop_.add(fd_.get(), EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLET, *this).has_value();
  host_inode_ = make_host_inode(*this);
  inode_ = host_inode_;
}

HostStream::~HostStream() {
  detach_host_inode(*host_inode_);
  if (watched_) loop_.remove(fd_.get());
}

void HostStream::on_host_events(uint32_t events) {
  if (events & EPOLLIN) events |= EPOLLRDNORM;
  if (events & EPOLLOUT) events |= EPOLLWRNORM;
  queue.wake(events);
}

uint32_t HostStream::poll_events() const {
  if (!watched_) return EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM;
  pollfd p{.fd = fd_.get(),
           .events = POLLIN | POLLPRI | POLLOUT | POLLRDNORM | POLLWRNORM | POLLRDHUP,
           .revents = 0};
  if (::poll(&p, 1, 0) <= 0) return 0;
  return static_cast<uint16_t>(p.revents);
}

Result<size_t> HostStream::read_some(std::span<char> to) {
  if (watched_) {
    if (reading_) contended_ = true;
    if (reading_ || !(poll_events() & (EPOLLIN | EPOLLHUP | EPOLLERR))) return Err(EAGAIN);
    reading_ = true;
  }
  ssize_t n = 0;
  int error = 0;
  {
    Unlocked unlocked;
    do {
      n = read_now(fd_.get(), mode_, to.data(), std::min(to.size(), kChunk));
    } while (n < 0 && errno == EINTR);
    error = errno;
  }
  if (watched_) {
    reading_ = false;
    if (std::exchange(contended_, false)) queue.wake(kTryAgain);
  }
  if (n < 0) return Err(error);
  return static_cast<size_t>(n);
}

size_t HostStream::write_limit() const { return terminal ? kTerminalChunk : kChunk; }

Result<size_t> HostStream::write_some(std::span<const char> from) {
  if (watched_) {
    if (writing_) contended_ = true;
    if (writing_ || !(poll_events() & (EPOLLOUT | EPOLLHUP | EPOLLERR))) return Err(EAGAIN);
    writing_ = true;
  }
  ssize_t n = 0;
  int error = 0;
  {
    Unlocked unlocked;
    do {
      n = write_now(fd_.get(), mode_, from.data(), std::min(from.size(), write_limit()));
    } while (n < 0 && errno == EINTR);
    error = errno;
  }
  if (watched_) {
    writing_ = false;
    if (std::exchange(contended_, false)) queue.wake(kTryAgain);
  }
  if (n < 0) return Err(error);
  return static_cast<size_t>(n);
}

HostFile::~HostFile() = default;

Result<size_t> HostFile::read(Task& task, IoSink& sink) {
  const Ref<HostStream> stream = stream_;  // the descriptor may be closed while the lock is dropped
  if (stream->terminal) TRY(stream->terminal->check_background(task, SIGTTIN));
  size_t done = 0;
  while (sink.remaining() > 0 && done < kCallLimit) {
    // What a stream gives it gives once.
    if (sink.writable() == 0 && (stream->is_regular() || poll_events() & EPOLLIN))
      return done > 0 ? Result<size_t>(done) : Err(EFAULT);
    const auto room = sink.prepare(kChunk);
    auto n = stream->read_some(room);
    if (!n) {
      if (done > 0) break;
      return Err(n.error());
    }
    if (auto r = sink.commit(*n); !r) return done ? Result<size_t>(done) : Err(r.error());
    done += *n;
    // Streams give what is there at once; files are read on to the end of the buffer.
    if (*n < room.size() || !stream->is_regular()) break;
  }
  return done;
}

Result<size_t> HostFile::write(Task& task, IoSource& source) {
  const Ref<HostStream> stream = stream_;
  // The description and its position are the host's: -1 stands for it.
  if (stream->is_regular() && source.append.value_or(false)) return pwrite(task, source, -1);
  if (stream->terminal) TRY(stream->terminal->check_write(task, stream->fd()));
  size_t done = 0;
  while (source.remaining() > 0 && done < kCallLimit) {
    auto bytes = source.peek(kChunk);
    Result<size_t> n = bytes ? stream->write_some(*bytes) : Err(bytes.error());
    if (!n) {
      if (n.error() == EPIPE && done == 0) send_sigpipe(task);
      if (done > 0) break;
      return Err(n.error());
    }
    source.advance(*n);
    done += *n;
    if (*n == 0) break;
  }
  return done;
}

Result<size_t> HostFile::pread(Task&, IoSink& sink, int64_t pos) {
  if (!stream_->is_regular()) return Err(ESPIPE);
  const Ref<HostStream> stream = stream_;
  size_t done = 0;
  while (sink.remaining() > 0 && done < kCallLimit) {
    const auto room = sink.prepare(kChunk);
    ssize_t n = 0;
    {
      Unlocked unlocked;
      n = ::pread(stream->fd(), room.data(), room.size(), pos + static_cast<int64_t>(done));
      if (n < 0 && done == 0) return HostErr();
    }
    if (n <= 0) break;
    if (auto r = sink.commit(static_cast<size_t>(n)); !r)
      return done ? Result<size_t>(done) : Err(r.error());
    done += static_cast<size_t>(n);
  }
  return done;
}

Result<size_t> HostFile::pwrite(Task&, IoSource& source, int64_t pos) {
  if (!stream_->is_regular()) return Err(ESPIPE);
  const Ref<HostStream> stream = stream_;
  size_t done = 0;
  while (source.remaining() > 0 && done < kCallLimit) {
    auto bytes = source.peek(kChunk);
    if (!bytes) {
      if (done > 0) break;
      return Err(bytes.error());
    }
    ssize_t n = 0;
    {
      Unlocked unlocked;
      const iovec v{const_cast<char*>(bytes->data()), bytes->size()};
      n = pwritev2(stream->fd(), &v, 1, pos < 0 ? -1 : pos + static_cast<int64_t>(done),
                   source.append.value_or(false) ? RWF_APPEND : 0);
      if (n < 0 && done == 0) return HostErr();
    }
    if (n <= 0) break;
    source.advance(static_cast<size_t>(n));
    done += static_cast<size_t>(n);
  }
  return done;
}

Result<int64_t> HostFile::seek(Task&, int64_t offset, int whence) {
  if (!stream_->is_regular()) return Err(ESPIPE);
  const off_t at = lseek(stream_->fd(), offset, whence);
  if (at < 0) return HostErr();
  return at;
}

Result<int64_t> HostFile::ioctl(Task& task, uint32_t request, uint64_t arg) {
  const Ref<HostStream> stream = stream_;
  if (stream->terminal) return stream->terminal->ioctl(task, *this, stream->fd(), request, arg);
  if (request != FIONREAD) return Err(ENOTTY);
  int32_t available = 0;
  if (::ioctl(stream->fd(), FIONREAD, &available) < 0) return HostErr();
  TRY(task.copy_out(UserAddr{arg}, available));
  return 0;
}

Result<MappableFd> HostFile::mappable_fd(Task&, int prot, bool shared) {
  if (!stream_->is_regular()) return Err(ENODEV);
  const int access = stream_->flags() & O_ACCMODE;
  if (access == O_WRONLY || (shared && (prot & PROT_WRITE) && access != O_RDWR)) return Err(EACCES);
  return MappableFd{.fd = stream_->fd(), .host_offset = 0, .shared_key = false};
}

Result<void> HostFile::truncate(Task&, int64_t size) {
  if (!stream_->is_regular()) return Err(EINVAL);
  const Ref<HostStream> stream = stream_;
  Unlocked unlocked;
  if (ftruncate(stream->fd(), size) < 0) return HostErr();
  return {};
}

Result<void> HostFile::sync(Task&, bool data_only) {
  if (!stream_->is_regular()) return Err(EINVAL);
  const Ref<HostStream> stream = stream_;
  Unlocked unlocked;
  if ((data_only ? fdatasync(stream->fd()) : fsync(stream->fd())) < 0) return HostErr();
  return {};
}

Result<Ref<File>> HostFile::reopen(Task&, int flags) {
  return open_host_stream(stream_, Path{}, flags);
}

Result<Ref<HostFile>> make_host_file(EventLoop& loop, UniqueFd fd, std::string name,
                                     const std::vector<Ref<HostFile>>& others) {
  struct stat st{};
  if (fstat(fd.get(), &st) < 0) return HostErr();
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0) return HostErr();
  // Isatty, without the C library's own idea of the structure.
  char termios[64];
  const bool is_terminal = S_ISCHR(st.st_mode) && ::ioctl(fd.get(), TCGETS, termios) == 0;
  auto stream = make_ref<HostStream>(loop, std::move(fd), std::move(name), st, flags);
  if (is_terminal) {
    for (const auto& other : others) {
      const auto& terminal = other->stream().terminal;
      if (terminal && terminal->device() == st.st_rdev) stream->terminal = terminal;
    }
    if (!stream->terminal) stream->terminal = make_ref<Terminal>(st.st_rdev);
  }
  return make_ref<HostFile>(Path{}, flags & (O_ACCMODE | O_APPEND), std::move(stream));
}

Result<Ref<File>> open_host_stream(const Ref<HostStream>& stream, Path path, int flags) {
  const int have = stream->flags() & O_ACCMODE;
  const int want = flags & O_ACCMODE;
  if (have != O_RDWR && want != have) return Err(EACCES);
  return make_ref<HostFile>(std::move(path), flags, stream);
}

}  // namespace uks
