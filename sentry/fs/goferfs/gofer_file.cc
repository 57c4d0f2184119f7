// Open host files: I/O on donated descriptors.
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sentry/fs/goferfs/gofer_fs.h"
#include "sentry/vfs/host_io.h"

namespace uks {
namespace {

constexpr size_t kIoChunk = 1 << 20;
constexpr uint32_t kOfWriting = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE;

}  // namespace

Result<Ref<HostFd>> GoferInode::acquire(bool writable) {
  Ref<HostFd>& slot = writable ? write_fd_ : read_fd_;
  if (slot) return slot;
  Ref<GoferInode> self(this);
  gofer::NodeId id = id_;
  auto open_as = [&](int flags) {
    return gofer_fs().rpc([&](gofer::GoferClient& c) { return c.open(id, flags); });
  };
  auto opened = open_as(writable ? O_RDWR : O_RDONLY);
  bool cacheable = true;
  if (!opened && writable && opened.error() == EACCES && (host_.mode & 0444) != 0444) {
    // A file that may be written but not read.
    opened = open_as(O_WRONLY);
    cacheable = false;
  }
  if (!opened) return Err(opened.error());
  if (!opened->fd) return Err(EIO);
  auto fd = make_ref<HostFd>(std::move(opened->fd), opened->attr.flags & gofer::kAttrIndirect,
                             writable ? this : nullptr);
  update(opened->attr);
  if (!cacheable) return fd;
  if (!slot) slot = fd;
  gofer_fs().note_fd(*this);
  return fd;
}

Result<Ref<File>> GoferInode::open(Task&, const Path& path, int flags) {
  if (is_dir()) {
    if (host_.flags & gofer::kAttrDenied) return Err(EACCES);
    return make_ref<DirFile>(path, flags);
  }
  // Host devices and sockets are not for guests.
  if (!is_regular()) return Err(type() == S_IFSOCK ? ENXIO : EACCES);
  auto fd = TRY(acquire((flags & O_ACCMODE) != O_RDONLY));
  return make_ref<GoferFile>(path, flags, Ref<GoferInode>(this), std::move(fd));
}

Result<size_t> GoferInode::read_at(int64_t pos, std::span<char> buffer) {
  auto fd = TRY(acquire(false));
  size_t done = 0;
  while (done < buffer.size()) {
    ssize_t n;
    int error = 0;
    {
      Unlocked unlocked;
      n = ::pread(fd->get(), buffer.data() + done, buffer.size() - done,
                  pos + static_cast<off_t>(done));
      if (n < 0) error = errno;
    }
    if (n < 0) return Err(error);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

Result<size_t> GoferInode::write_indirectly(int64_t pos, std::string_view bytes) {
  constexpr size_t kMost = 60'000;  // of a message
  Ref<GoferInode> self(this);
  const std::string copy(bytes.substr(0, kMost));
  const gofer::NodeId id = id_;
  const OwnChange own(teller(), {{this, {}, kOfWriting}});
  auto written = gofer_fs().rpc(
      [&](gofer::GoferClient& c) { return c.write(id, static_cast<uint64_t>(pos), copy); });
  forget_attr();
  return written;
}

Result<size_t> GoferFile::pread(Task&, IoSink& sink, int64_t pos) {
  if (pos < 0) return Err(EINVAL);
  size_t done = 0;
  while (sink.remaining() > 0) {
    auto span = sink.prepare(kIoChunk);
    ssize_t n;
    int error = 0;
    {
      Unlocked unlocked;
      n = ::pread(fd_->get(), span.data(), span.size(), pos + static_cast<off_t>(done));
      if (n < 0) error = errno;
    }
    if (n < 0) return done ? Result<size_t>(done) : Err(error);
    if (n == 0) break;
    if (auto r = sink.commit(static_cast<size_t>(n)); !r)
      return done ? Result<size_t>(done) : Err(r.error());
    done += static_cast<size_t>(n);
    if (static_cast<size_t>(n) < span.size()) break;
  }
  return done;
}

Result<size_t> GoferFile::pwrite(Task&, IoSource& source, int64_t pos) {
  if (pos < 0) return Err(EINVAL);
  const bool append = appends(source);
  const OwnChange own(inode_->teller(), {{inode_.get(), {}, kOfWriting}});
  bool made_room = false;
  size_t done = 0;
  while (source.remaining() > 0) {
    auto peeked = source.peek(kIoChunk);
    if (!peeked) {
      if (done) break;
      return Err(peeked.error());
    }
    auto span = *peeked;
    if (fd_->indirect()) {
      const auto end =
          append ? static_cast<int64_t>(TRY(file_size())) : pos + static_cast<int64_t>(done);
      auto written = inode_->write_indirectly(end, {span.data(), span.size()});
      if (!written) return done ? Result<size_t>(done) : Err(written.error());
      source.advance(*written);
      done += *written;
      continue;
    }
    ssize_t n;
    int error = 0;
    {
      Unlocked unlocked;
      if (append) {
        // The host finds the end: other processes there may append as well.
        iovec v{const_cast<char*>(span.data()), span.size()};
        n = pwritev2(fd_->get(), &v, 1, 0, RWF_APPEND);
      } else {
        n = ::pwrite(fd_->get(), span.data(), span.size(), pos + static_cast<off_t>(done));
      }
      if (n < 0) error = errno;
    }
    inode_->forget_attr();
    if (n < 0 && (error == ENOSPC || error == EDQUOT) && !made_room) {
      // What was unlinked a moment ago may still be open in the gofer.
      made_room = true;
      static_cast<GoferFs&>(inode_->fs()).flush_forgets();
      continue;
    }
    if (n < 0) return done ? Result<size_t>(done) : Err(error);
    source.advance(static_cast<size_t>(n));
    done += static_cast<size_t>(n);
    if (n == 0) break;
  }
  return done;
}

Result<size_t> GoferFile::write(Task& task, IoSource& source) {
  size_t n = TRY(pwrite(task, source, pos));
  if (appends(source)) {
    pos = static_cast<int64_t>(TRY(file_size()));
  } else {
    pos += static_cast<int64_t>(n);
  }
  return n;
}

Result<MappableFd> GoferFile::mappable_fd(Task&, int, bool shared) {
  if (shared && writable()) {
    inode_->is_mapped_ = true;
    inode_->coverage_ = 0;
    inode_->forget_attr();
  }
  MappableFd m;
  m.fd = fd_->get();
  return m;
}

Result<void> GoferFile::truncate(Task&, int64_t size) {
  if (fd_->indirect()) {
    SetAttr changes;
    changes.size = static_cast<uint64_t>(size);
    return inode_->setattr(changes);
  }
  int r, error = 0;
  const OwnChange own(inode_->teller(), {{inode_.get(), {}, kOfWriting}});
  {
    Unlocked unlocked;
    r = ftruncate(fd_->get(), size);
    if (r != 0) error = errno;
  }
  inode_->forget_attr();
  if (r != 0) return Err(error);
  return {};
}

Result<void> GoferFile::allocate(Task&, int mode, int64_t offset, int64_t length) {
  int r, error = 0;
  const OwnChange own(inode_->teller(), {{inode_.get(), {}, kOfWriting}});
  {
    Unlocked unlocked;
    r = fallocate(fd_->get(), mode, offset, length);
    if (r != 0) error = errno;
  }
  inode_->forget_attr();
  if (r != 0) return Err(error);
  return {};
}

Result<void> GoferFile::sync(Task&, bool data_only) {
  int r, error = 0;
  {
    Unlocked unlocked;
    r = data_only ? fdatasync(fd_->get()) : fsync(fd_->get());
    if (r != 0) error = errno;
  }
  if (r != 0) return Err(error);
  return {};
}

Result<uint64_t> GoferFile::file_size() {
  struct stat st;
  if (host_fstat(fd_->get(), &st) != 0) return HostErr();
  return static_cast<uint64_t>(st.st_size);
}

Result<int64_t> GoferFile::seek_data_hole(int64_t offset, bool hole, int64_t) {
  off_t r = lseek(fd_->get(), offset, hole ? SEEK_HOLE : SEEK_DATA);
  if (r < 0) return HostErr();
  return r;
}

}  // namespace uks
