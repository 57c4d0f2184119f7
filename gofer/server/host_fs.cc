// Raw access to the host's files.
#include "gofer/server/host_fs.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace uks::gofer {
namespace {

// Missing from some <linux/magic.h>.
constexpr uint32_t kConfigfsMagic = 0x62656570, kMqueueMagic = 0x19800202,
                   kFusectlMagic = 0x65735543, kNsfsMagic = 0x6e736673,
                   kRpcPipefsMagic = 0x67596969, kSelinuxMagic = 0xf97cff8c,
                   kSmackMagic = 0x43415d53, kBinfmtMagic = 0x42494e4d;

Time time_of(const statx_timestamp& t) { return {t.tv_sec, t.tv_nsec}; }

}  // namespace

Result<UniqueFd> open_beneath(int dir, const char* path, uint64_t flags, uint64_t mode) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS;
  // EAGAIN: the kernel saw a concurrent rename and could not tell whether the path stayed beneath.
  for (int attempt = 0; attempt < 16; ++attempt) {
    long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return HostErr();
}

Result<UniqueFd> open_path_beneath(int dir, std::string_view path) {
  constexpr size_t kPiece = 4000;  // below PATH_MAX
  if (path.empty()) return open_beneath(dir, ".", O_PATH | O_NOFOLLOW);
  UniqueFd current;
  while (true) {
    std::string piece(path);
    if (path.size() > kPiece) {
      size_t slash = path.rfind('/', kPiece);
      if (slash == std::string_view::npos || slash == 0) return Err(ENAMETOOLONG);
      piece = path.substr(0, slash);
      path = path.substr(slash + 1);
    } else {
      path = {};
    }
    UniqueFd next =
        TRY(open_beneath(current ? current.get() : dir, piece.c_str(), O_PATH | O_NOFOLLOW));
    current = std::move(next);
    if (path.empty()) return current;
  }
}

Result<Attr> stat_at(int dir, const char* name) {
  struct statx s;
  int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name ? 0 : AT_EMPTY_PATH);
  if (::statx(dir, name, flags, STATX_BASIC_STATS | STATX_BTIME, &s) < 0) return HostErr();
  Attr a;
  a.dev = makedev(s.stx_dev_major, s.stx_dev_minor);
  a.ino = s.stx_ino;
  a.mode = s.stx_mode;
  a.nlink = s.stx_nlink;
  a.uid = s.stx_uid;
  a.gid = s.stx_gid;
  a.rdev = makedev(s.stx_rdev_major, s.stx_rdev_minor);
  a.size = s.stx_size;
  a.blocks = s.stx_blocks;
  a.blksize = s.stx_blksize;
  a.atime = time_of(s.stx_atime);
  a.mtime = time_of(s.stx_mtime);
  a.ctime = time_of(s.stx_ctime);
  if (s.stx_mask & STATX_BTIME) a.btime = time_of(s.stx_btime);
  return a;
}

bool is_kernel_interface(int fd) {
  struct statfs s;
  if (::fstatfs(fd, &s) < 0) return true;
  switch (static_cast<uint32_t>(s.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case BPF_FS_MAGIC:
    case PSTOREFS_MAGIC:
    case EFIVARFS_MAGIC:
    case DEVPTS_SUPER_MAGIC:
    case BINDERFS_SUPER_MAGIC:
    case kConfigfsMagic:
    case kMqueueMagic:
    case kFusectlMagic:
    case kNsfsMagic:
    case kRpcPipefsMagic:
    case kSelinuxMagic:
    case kSmackMagic:
    case kBinfmtMagic:
      return true;
    default:
      return false;
  }
}

bool is_changed_here_only(int fd) {
  constexpr uint32_t kF2fs = 0xf2f52010, kBcachefs = 0xca451a4e, kZfs = 0x2fc12fc1;
  struct statfs s;
  if (::fstatfs(fd, &s) < 0) return false;
  switch (static_cast<uint32_t>(s.f_type)) {
    case EXT4_SUPER_MAGIC:  // ext2 and ext3, too
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case SQUASHFS_MAGIC:
    case EROFS_SUPER_MAGIC_V1:
    case kF2fs:
    case kBcachefs:
    case kZfs:
      return true;
    default:
      return false;
  }
}

}  // namespace uks::gofer
