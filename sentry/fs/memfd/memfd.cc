// memfd_create(2).
#include "sentry/fs/memfd/memfd.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "platform/platform.h"
#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/task/task.h"
#include "sentry/vfs/anon.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace uks {
namespace {

constexpr size_t kChunk = 1 << 16;
constexpr int kLargeFile = 0100000;  // the kernel's O_LARGEFILE, which F_GETFL shows
class MemfdFs final : public FileSystem {
 public:
  const char* type() const override { return "tmpfs"; }
  Result<struct statfs> statfs() override {
    struct statfs s{};
    s.f_type = 0x01021994;  // TMPFS_MAGIC
    s.f_bsize = 4096;
    s.f_namelen = 255;
    return s;
  }
};

FileSystem& memfd_fs() {
  static FileSystem* const fs = new MemfdFs;
  return *fs;
}

constexpr size_t kMaxName = 249;  // MFD_NAME_MAX_LEN

}  // namespace

MemfdInode::MemfdInode(UniqueFd fd, std::string name, const Attr& attr, Ref<PageQuota> quota)
    : Inode(memfd_fs()), host_(std::move(quota)), name_(std::move(name)), attr_(attr) {
  host_.set_fd(std::move(fd));
}

Result<Attr> MemfdInode::getattr() {
  struct stat st{};
  if (fstat(host_.fd(), &st) < 0) return HostErr();
  Attr attr = attr_;
  attr.dev = fs().dev();
  attr.nlink = 0;
  attr.size = static_cast<uint64_t>(st.st_size);
  attr.blocks = static_cast<uint64_t>(st.st_blocks);
  attr.atime = st.st_atim;
  attr.mtime = st.st_mtim;
  attr.ctime = st.st_ctim;
  return attr;
}

Result<void> MemfdInode::setattr(const SetAttr& c) {
  if (c.size) {
    const auto done = host_.truncate(*c.size);
    if (!done) return Err(done.error() == ENOSPC ? Errno{ENOMEM} : done.error());
  }
  // The host's mode bits are not the guest's, so F_SEAL_EXEC is looked at here (mfd_seal checks in
  // mm/shmem.c).
  constexpr int kSealExec = 0x0020;
  if (c.mode && ((*c.mode ^ attr_.mode) & 0111) && (fcntl(host_.fd(), F_GET_SEALS) & kSealExec))
    return Err(EPERM);
  if (c.mode) attr_.mode = (attr_.mode & S_IFMT) | (*c.mode & 07777);
  if (c.uid) attr_.uid = *c.uid;
  if (c.gid) attr_.gid = *c.gid;
  // Times are the host's: nobody sets those of an object without a name.
  if (c.atime || c.mtime) return Err(EPERM);
  return {};
}

Result<Ref<File>> MemfdInode::open(Task&, const Path& path, int flags) {
  return make_ref<MemfdFile>(path, flags, Ref<MemfdInode>(this));
}

Result<size_t> MemfdInode::read_at(int64_t pos, std::span<char> buffer) {
  const ssize_t n = ::pread(host_.fd(), buffer.data(), buffer.size(), pos);
  if (n < 0) return HostErr();
  return static_cast<size_t>(n);
}

Result<size_t> MemfdInode::write_at(int64_t pos, std::span<const char> buffer) {
  const ssize_t n = ::pwrite(host_.fd(), buffer.data(), buffer.size(), pos);
  if (n < 0) return HostErr();
  return static_cast<size_t>(n);
}

Result<size_t> MemfdInode::append(std::span<const char> buffer) {
  const iovec v{const_cast<char*>(buffer.data()), buffer.size()};
  const ssize_t n = pwritev2(host_.fd(), &v, 1, 0, RWF_APPEND);
  if (n < 0) return HostErr();
  return static_cast<size_t>(n);
}

MemfdFile::~MemfdFile() = default;

Result<size_t> MemfdFile::write(Task& task, IoSource& source) {
  const size_t n = TRY(File::write(task, source));
  if (appends(source)) pos = static_cast<int64_t>(TRY(inode_->getattr()).size);
  return n;
}

Result<size_t> MemfdFile::pread(Task&, IoSink& sink, int64_t at) {
  const Ref<MemfdInode> inode = inode_;
  size_t done = 0;
  while (sink.remaining() > 0) {
    const auto room = sink.prepare(kChunk);
    Result<size_t> n = size_t{0};
    {
      Unlocked unlocked;
      n = inode->read_at(at + static_cast<int64_t>(done), room);
    }
    if (!n && done == 0) return n;
    if (!n || *n == 0) break;
    if (auto r = sink.commit(*n); !r) return done ? Result<size_t>(done) : Err(r.error());
    done += *n;
  }
  return done;
}

Result<size_t> MemfdFile::pwrite(Task&, IoSource& source, int64_t at) {
  const Ref<MemfdInode> inode = inode_;
  size_t done = 0;
  while (source.remaining() > 0) {
    auto bytes = source.peek(kChunk);
    Result<size_t> n = bytes ? Result<size_t>(0) : Err(bytes.error());
    const auto reserved = bytes ? inode->host().reserve(bytes->size()) : Result<uint64_t>(0);
    if (!reserved) n = Err(reserved.error());
    if (n) {
      {
        Unlocked unlocked;
        n = appends(source) ? inode->append(*bytes)
                            : inode->write_at(at + static_cast<int64_t>(done), *bytes);
      }
      inode->host().settle(*reserved);
    }
    if (!n && done == 0) return n;
    if (!n || *n == 0) break;
    source.advance(*n);
    done += *n;
  }
  return done;
}

Result<int64_t> MemfdFile::seek(Task&, int64_t offset, int whence) {
  int64_t base = 0;
  switch (whence) {
    case SEEK_SET:
      break;
    case SEEK_CUR:
      base = pos;
      break;
    case SEEK_END:
      base = static_cast<int64_t>(TRY(inode_->getattr()).size);
      break;
    case SEEK_DATA:
    case SEEK_HOLE: {
      // The host description's own position is used by nothing else.
      const off_t at = lseek(inode_->fd(), offset, whence);
      if (at < 0) return HostErr();
      pos = at;
      return at;
    }
    default:
      return Err(EINVAL);
  }
  int64_t target = 0;
  if (__builtin_add_overflow(base, offset, &target) || target < 0) return Err(EINVAL);
  pos = target;
  return target;
}

Result<int> MemfdInode::read_only_fd(keeper::Channel& keeper) {
  if (!read_only_fd_.valid()) read_only_fd_ = TRY(keeper.reopen_read_only(host_.fd()));
  return read_only_fd_.get();
}

Result<MappableFd> MemfdFile::mappable_fd(Task& task, int prot, bool shared) {
  if (!readable() || (shared && (prot & PROT_WRITE) && !writable())) return Err(EACCES);
  const int fd =
      writable() ? inode_->fd() : TRY(inode_->read_only_fd(task.kernel().platform->keeper()));
  auto pages = inode_->host().pledge();
  if (!pages) return Err(pages.error() == ENOSPC ? Errno{ENOMEM} : pages.error());
  return MappableFd{.fd = fd, .host_offset = 0, .shared_key = true, .pages = std::move(*pages)};
}

Result<void> MemfdFile::truncate(Task&, int64_t size) {
  if (size < 0) return Err(EINVAL);
  SetAttr change;
  change.size = static_cast<uint64_t>(size);
  return inode_->setattr(change);
}

Result<void> MemfdFile::allocate(Task&, int mode, int64_t offset, int64_t length) {
  const Ref<MemfdInode> inode = inode_;
  const bool punch = mode & FALLOC_FL_PUNCH_HOLE;
  const uint64_t reserved =
      punch || length <= 0 ? 0 : TRY(inode->host().reserve(static_cast<uint64_t>(length)));
  int error = 0;
  {
    Unlocked unlocked;
    if (fallocate(inode->fd(), mode, offset, length) < 0) error = errno;
  }
  inode->host().settle(reserved);
  if (error) return Err(error);
  return {};
}

Result<Ref<File>> MemfdFile::reopen(Task&, int flags) {
  return make_ref<MemfdFile>(Path{}, flags, inode_);
}

Result<Ref<File>> make_memfd(Task& task, const std::string& name, unsigned flags) {
  constexpr unsigned kKnown = MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL | MFD_EXEC;
  if ((flags & ~kKnown) || ((flags & MFD_EXEC) && (flags & MFD_NOEXEC_SEAL))) return Err(EINVAL);
  if (name.size() > kMaxName) return Err(EINVAL);
  // MFD_EXEC is the default, and older hosts do not know it.
  UniqueFd fd(::memfd_create(name.c_str(), (flags & ~MFD_EXEC) | MFD_CLOEXEC));
  if (!fd) return Err(errno == EMFILE ? ENFILE : errno);
  Attr attr =
      TRY(make_anon_inode(task, S_IFREG | (flags & MFD_NOEXEC_SEAL ? 0666u : 0777u))->getattr());
  auto inode = make_ref<MemfdInode>(std::move(fd), name, attr, task.kernel().file_pages);
  return make_ref<MemfdFile>(Path{}, O_RDWR | kLargeFile, std::move(inode));
}

Result<int64_t> memfd_fcntl(Task&, File& file, int command, uint64_t arg) {
  if (file.kind() != FileKind::kMemfd) return Err(EINVAL);
  if (command == F_ADD_SEALS && !file.writable()) return Err(EPERM);
  if (command != F_ADD_SEALS && command != F_GET_SEALS) return Err(EINVAL);
  const int r = fcntl(static_cast<MemfdFile&>(file).memfd().fd(), command, static_cast<int>(arg));
  if (r < 0) return HostErr();
  return r;
}

}  // namespace uks
