// sendfile, copy_file_range: data from file to file through a buffer of the kernel's.
#include <memory>

#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/notify.h"
#include "syscalls/file_io.h"

namespace uks {
namespace {

constexpr size_t kBuffer = 128 * 1024;

// Where one side's bytes are: at `*pos` if given, else at the file's own position, which only the
// file itself may know (a standard stream shares its position with the host).
struct Cursor {
  File& file;
  std::optional<int64_t> pos;
  Result<int64_t> at(Task& task) const {
    if (pos) return *pos;
    return file.seek(task, 0, SEEK_CUR);
  }
  Result<void> advance(Task& task, size_t n) {
    if (pos) {
      *pos += static_cast<int64_t>(n);
    } else {
      TRY(file.seek(task, static_cast<int64_t>(n), SEEK_CUR));
    }
    return {};
  }
};

// Copies up to `count` bytes; `in` is seekable. Returns bytes done; EAGAIN only if none were.
Result<uint64_t> copy(Task& task, Cursor& in, Cursor& out, uint64_t count) {
  auto buffer = std::make_unique<char[]>(kBuffer);
  uint64_t done = 0;
  while (done < count) {
    BufferSink sink({buffer.get(), std::min<size_t>(kBuffer, count - done)});
    auto got = in.file.pread(task, sink, TRY(in.at(task)));
    if (!got) return done ? Result<uint64_t>(done) : Err(got.error());
    if (*got == 0) break;
    BufferSource source({buffer.get(), *got});
    while (source.remaining() > 0) {
      auto put = out.pos ? out.file.pwrite(task, source, *out.pos) : out.file.write(task, source);
      if (!put) return done ? Result<uint64_t>(done) : Err(put.error());
      if (*put == 0) return done;
      if (out.pos) *out.pos += static_cast<int64_t>(*put);
      TRY(in.advance(task, *put));
      done += *put;
    }
  }
  return done;
}

Result<uint64_t> copy_and_tell(Task& task, Cursor& in, Cursor& out, uint64_t count) {
  auto done = copy(task, in, out, count);
  if (done.value_or(0) > 0) {
    notify::file(in.file, IN_ACCESS);
    notify::file(out.file, IN_MODIFY);
  }
  return done;
}

}  // namespace

Result<int64_t> sys_sendfile(Task& task, int out_fd, int in_fd, UserInOut offset, uint64_t count) {
  Ref<File> in_file = TRY(task.call_file(in_fd));
  if (!in_file->readable()) return Err(EBADF);
  Ref<File> out_file = TRY(task.call_file(out_fd));
  if (!out_file->writable()) return Err(EBADF);
  std::optional<int64_t> pos;
  if (offset) {
    if (!in_file->seekable()) return Err(ESPIPE);
    pos = TRY(task.copy_in<int64_t>(offset));
    if (*pos < 0) return Err(EINVAL);
  }
  if (!in_file->seekable() || (in_file->inode() && in_file->inode()->is_dir())) return Err(EINVAL);
  if (out_file->flags() & O_APPEND) return Err(EINVAL);
  // Progress of earlier runs: their bytes are gone already, and *offset was written back.
  uint64_t& done = task.call().progress;
  count = std::min(count, kMaxRwCount);
  Cursor in{*in_file, pos}, out{*out_file, {}};
  while (done < count) {
    auto r = copy_and_tell(task, in, out, count - done);
    if (r) {
      if (offset) TRY(task.copy_out(offset, *in.pos));
      if (*r == 0) break;
      done += *r;
      continue;
    }
    if (r.error() == EAGAIN && !out_file->nonblocking() && out_file->wait_queue()) {
      Errno e = task.block({{out_file->wait_queue(), EPOLLOUT}});
      if (e == kBlocked || done == 0) return Err(e);
      break;
    }
    if (done == 0) return Err(r.error());
    break;
  }
  return static_cast<int64_t>(done);
}

Result<int64_t> sys_copy_file_range(Task& task, int in_fd, UserInOut off_in, int out_fd,
                                    UserInOut off_out, uint64_t length, uint32_t flags) {
  if (flags) return Err(EINVAL);
  Ref<File> in_file = TRY(task.fds().get_io(in_fd));
  Ref<File> out_file = TRY(task.fds().get_io(out_fd));
  Inode* a = in_file->inode();
  Inode* b = out_file->inode();
  if ((a && a->is_dir()) || (b && b->is_dir())) return Err(EISDIR);
  if (!a || !b || !a->is_regular() || !b->is_regular()) return Err(EINVAL);
  if (!in_file->readable() || !out_file->writable() || (out_file->flags() & O_APPEND))
    return Err(EBADF);
  Cursor in{*in_file, {}}, out{*out_file, {}};
  in.pos = off_in ? TRY(task.copy_in<int64_t>(off_in)) : TRY(in_file->seek(task, 0, SEEK_CUR));
  out.pos = off_out ? TRY(task.copy_in<int64_t>(off_out)) : TRY(out_file->seek(task, 0, SEEK_CUR));
  if (*in.pos < 0 || *out.pos < 0) return Err(EINVAL);
  length = std::min(length, kMaxRwCount);
  int64_t in_end, out_end;
  if (__builtin_add_overflow(*in.pos, static_cast<int64_t>(length), &in_end) ||
      __builtin_add_overflow(*out.pos, static_cast<int64_t>(length), &out_end))
    return Err(EOVERFLOW);
  if (a == b && *out.pos < in_end && *in.pos < out_end && length > 0) return Err(EINVAL);
  length = TRY(apply_file_size_limit(task, *out_file, *out.pos, length));
  uint64_t done = TRY(copy_and_tell(task, in, out, length));
  if (off_in) {
    TRY(task.copy_out(off_in, *in.pos));
  } else {
    TRY(in_file->seek(task, *in.pos, SEEK_SET));  // passed-through files keep theirs on the host
  }
  if (off_out) {
    TRY(task.copy_out(off_out, *out.pos));
  } else {
    TRY(out_file->seek(task, *out.pos, SEEK_SET));
  }
  return static_cast<int64_t>(done);
}

}  // namespace uks
