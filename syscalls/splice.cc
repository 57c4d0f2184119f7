// splice, tee and vmsplice: data between pipes and files. The bytes are copied.
#include <algorithm>
#include <optional>
#include <vector>

#include "gen/syscalls.h"
#include "sentry/fs/pipe/pipe.h"
#include "sentry/task/task.h"
#include "sentry/usermem/guest_io.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/notify.h"

namespace uks {
namespace {

// Moves at most this much in one call, so that no call holds the kernel lock for long.
constexpr size_t kSpliceChunk = 65536;
constexpr unsigned kSpliceFlags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT;

Pipe* pipe_of(File& file) {
  return file.kind() == FileKind::kPipe ? &static_cast<PipeFile&>(file).pipe() : nullptr;
}

// Waits for `file` unless told not to.
Result<int64_t> wait_for(Task& task, File& file, uint32_t events, bool nonblocking) {
  if (nonblocking) return Err(EAGAIN);
  return Err(task.block({{file.wait_queue(), events}}));
}

// Pipe to pipe; with `consume` false it is tee(2).
Result<int64_t> between_pipes(Task& task, File& in, File& out, size_t length, bool nonblocking,
                              bool consume) {
  Pipe& from = *pipe_of(in);
  Pipe& to = *pipe_of(out);
  if (&from == &to) return Err(EINVAL);
  if (to.readers() == 0) {
    send_sigpipe(task);
    return Err(EPIPE);
  }
  if (from.size() == 0) {
    if (from.writers() == 0) return 0;
    return wait_for(task, in, EPOLLIN, nonblocking || in.nonblocking());
  }
  if (to.free() == 0) return wait_for(task, out, EPOLLOUT, nonblocking || out.nonblocking());
  const size_t n = std::min({length, from.size(), to.free(), kSpliceChunk});
  std::vector<char> buffer(n);
  from.peek(buffer.data(), n);
  to.append(buffer.data(), n);
  if (consume) from.consume(n);
  return static_cast<int64_t>(n);
}

Result<int64_t> file_to_pipe(Task& task, File& in, std::optional<int64_t>& offset, File& out,
                             size_t length, bool nonblocking) {
  Pipe& to = *pipe_of(out);
  if (to.readers() == 0) {
    send_sigpipe(task);
    return Err(EPIPE);
  }
  if (to.free() == 0) return wait_for(task, out, EPOLLOUT, nonblocking || out.nonblocking());
  std::vector<char> buffer(std::min({length, to.free(), kSpliceChunk}));
  BufferSink sink{std::span<char>(buffer)};
  auto n = offset ? in.pread(task, sink, *offset) : in.read(task, sink);
  if (!n) {
    if (n.error() == EAGAIN) return wait_for(task, in, EPOLLIN, nonblocking || in.nonblocking());
    return Err(n.error());
  }
  // Reading may have dropped the kernel lock and another writer come in between: what does not fit
  // any more goes back where the file has a position.
  const size_t fits = std::min(*n, to.free());
  if (fits < *n && !offset && in.seekable()) in.pos -= static_cast<int64_t>(*n - fits);
  to.append(buffer.data(), fits);
  if (offset) *offset += static_cast<int64_t>(fits);
  if (fits > 0) notify::file(in, IN_ACCESS);
  return static_cast<int64_t>(fits);
}

Result<int64_t> pipe_to_file(Task& task, File& in, File& out, std::optional<int64_t>& offset,
                             size_t length, bool nonblocking) {
  Pipe& from = *pipe_of(in);
  if (from.size() == 0) {
    if (from.writers() == 0) return 0;
    return wait_for(task, in, EPOLLIN, nonblocking || in.nonblocking());
  }
  std::vector<char> buffer(std::min({length, from.size(), kSpliceChunk}));
  from.peek(buffer.data(), buffer.size());
  // Out of the pipe before the write, which may drop the kernel lock: no two readers get the same
  // bytes.
  from.consume(buffer.size());
  BufferSource source{std::span<const char>(buffer)};
  auto n = offset ? out.pwrite(task, source, *offset) : out.write(task, source);
  const size_t done = n ? *n : 0;
  if (done < buffer.size()) from.prepend(buffer.data() + done, buffer.size() - done);
  if (!n) {
    if (n.error() == EAGAIN) return wait_for(task, out, EPOLLOUT, nonblocking || out.nonblocking());
    return Err(n.error());
  }
  if (offset) *offset += static_cast<int64_t>(done);
  if (done > 0) notify::file(out, IN_MODIFY);
  return static_cast<int64_t>(done);
}

}  // namespace

Result<int64_t> sys_splice(Task& task, int fd_in, UserInOut off_in, int fd_out, UserInOut off_out,
                           uint64_t length, uint32_t flags) {
  if (flags & ~kSpliceFlags) return Err(EINVAL);
  if (length == 0) return 0;
  auto in = TRY(task.call_file(fd_in));
  auto out = TRY(task.call_file(fd_out));
  if (!in->readable() || !out->writable()) return Err(EBADF);
  const bool nonblocking = flags & SPLICE_F_NONBLOCK;
  Pipe* from = pipe_of(*in);
  Pipe* to = pipe_of(*out);
  if (!from && !to) return Err(EINVAL);
  if ((from && off_in) || (to && off_out)) return Err(ESPIPE);
  if (from && to) return between_pipes(task, *in, *out, length, nonblocking, true);
  const UserAddr offset_addr = from ? off_out : off_in;
  File& file = from ? *out : *in;
  std::optional<int64_t> offset;
  if (offset_addr) {
    if (!file.seekable()) return Err(EINVAL);
    offset = TRY(task.copy_in<int64_t>(offset_addr));
    if (*offset < 0) return Err(EINVAL);
  }
  if (from && (file.flags() & O_APPEND)) return Err(EINVAL);
  auto n = from ? pipe_to_file(task, *in, file, offset, length, nonblocking)
                : file_to_pipe(task, file, offset, *out, length, nonblocking);
  if (n && offset) TRY(task.copy_out(offset_addr, *offset));
  return n;
}

Result<int64_t> sys_tee(Task& task, int fd_in, int fd_out, uint64_t length, uint32_t flags) {
  if (flags & ~kSpliceFlags) return Err(EINVAL);
  if (length == 0) return 0;
  auto in = TRY(task.call_file(fd_in));
  auto out = TRY(task.call_file(fd_out));
  if (!in->readable() || !out->writable()) return Err(EBADF);
  if (!pipe_of(*in) || !pipe_of(*out)) return Err(EINVAL);
  return between_pipes(task, *in, *out, length, flags & SPLICE_F_NONBLOCK, false);
}

Result<int64_t> sys_vmsplice(Task& task, int fd, UserIn iov, uint64_t count, uint32_t flags) {
  if (flags & ~kSpliceFlags) return Err(EINVAL);
  auto file = TRY(task.call_file(fd));
  Pipe* pipe = pipe_of(*file);
  if (!pipe) return Err(EBADF);
  if (count > 1024) return Err(EINVAL);
  auto ranges = TRY(task.copy_in_iovec(iov, static_cast<int>(count)));
  const bool nonblocking = (flags & SPLICE_F_NONBLOCK) || file->nonblocking();
  // The pages are copied, not shared: a guest cannot tell until it changes them too early.
  Result<size_t> n = size_t{0};
  if (file->writable()) {
    size_t done = 0;
    for (const iovec& range : ranges) {
      GuestSource source(task, {range});
      n = with_fetched(source, kSpliceChunk, [&] { return file->write(task, source); });
      done += n.value_or(0);
      if (n.value_or(0) < range.iov_len) break;
    }
    if (done > 0) n = done;
  } else {
    GuestSink sink(task, std::move(ranges));
    n = file->read(task, sink);
    if (n) {
      const auto arrived = sink.deliver(*n);
      if (!task.dead) file->take_back(sink.undelivered());
      n = arrived;
    }
  }
  if (!n && n.error() == EAGAIN) {
    return wait_for(task, *file, file->writable() ? EPOLLOUT : EPOLLIN, nonblocking);
  }
  if (!n) return Err(n.error());
  return static_cast<int64_t>(*n);
}

}  // namespace uks
