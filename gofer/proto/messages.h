// What the sentry's gofer client and the gofer say to each other: operations, limits and plain
// data.
#pragma once
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "platform/base/errno.h"
#include "platform/base/unique_fd.h"

namespace uks::gofer {

// Names a file of a served tree. Never reused while the gofer lives. 0: none.
using NodeId = uint64_t;
inline constexpr NodeId kNoNode = 0;

// Every message is one SOCK_SEQPACKET packet of at most this many bytes.
inline constexpr size_t kMaxMessage = 64 * 1024;
// Limits of one message's parts, checked by the server.
inline constexpr size_t kMaxName = 255;
inline constexpr size_t kMaxWalkNames = 256;
inline constexpr size_t kMaxLinkTarget = 4095;
inline constexpr size_t kMaxXattrValue =
    48 * 1024;  // larger values: E2BIG (Linux's own limit is 64 KiB)
inline constexpr size_t kMaxForgets = 4000;

enum class Op : uint32_t {
  kAttach = 1,
  kWalk,
  kGetattr,
  kSetattr,
  kOpen,
  kCreate,
  kMkdir,
  kSymlink,
  kLink,
  kUnlink,
  kRmdir,
  kRename,
  kMknod,
  kReadlink,
  kReaddir,
  kStatfs,
  kGetxattr,
  kSetxattr,
  kListxattr,
  kRemovexattr,
  kFsync,
  kForget,
  kWrite,
  kLookEach,
  kWatch,
  kUnwatch,
  kCreateUnnamed,
};

// Message layout (little endian, no padding): request = u32 op, u32 seq, arguments; answer = u32
// seq, i32 errno (0: done), results. Strings are u32 length + bytes.

struct Time {
  int64_t sec = 0;
  uint32_t nsec = 0;
  friend bool operator==(const Time&, const Time&) = default;
};

// Attr::flags: what the gofer's rules say of the file.
inline constexpr uint32_t kAttrWritable = 1;  // may be changed, and names in it may be made
inline constexpr uint32_t kAttrDenied =
    2;  // visible, but opening, reading the link, listing: EACCES

inline constexpr uint32_t kAttrIndirect =
    4;  // of a file opened for writing: only write() changes it
inline constexpr uint32_t kAttrCopied =
    8;  // of the new directory after a rename: the name has a copy

struct Attr {
  uint64_t dev = 0;  // with ino: the host's identity of the file (hard links share it)
  uint64_t ino = 0;
  uint32_t mode = 0;  // S_IFMT and permissions
  uint32_t nlink = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t rdev = 0;
  uint64_t size = 0;
  uint64_t blocks = 0;  // of 512 bytes
  uint32_t blksize = 0;
  uint32_t flags = 0;
  Time atime, mtime, ctime;
  Time btime;  // zero: the file system does not say
  friend bool operator==(const Attr&, const Attr&) = default;

  bool is_directory() const { return S_ISDIR(mode); }
  bool is_symlink() const { return S_ISLNK(mode); }
  bool is_regular() const { return S_ISREG(mode); }
};

// A node handed out. Each time an id arrives in an answer the client owns one more *lookup* of it,
// and gives all of them back with forget().
struct NodeAttr {
  NodeId id = kNoNode;
  Attr attr;
};

// Walks stop early at a missing name (error ENOENT), at a symbolic link that is not the last name
// (the link is the last step, error 0), at another non-directory (error ENOTDIR), at a forbidden
// one (EACCES).
struct WalkResult {
  std::vector<NodeAttr> steps;
  Errno error{0};
  std::string target;  // of a link that the walk stopped at on the way; may be empty: ask
};

// One name of several in a directory.
struct Looked {
  Errno error{0};  // 0: `node` is it
  NodeAttr node;
  std::string target;  // as in WalkResult
};

struct OpenedFile {
  UniqueFd
      fd;  // a regular file, in exactly the access mode asked for; O_APPEND is the sentry's affair
  Attr attr;
};

// A file that the gofer's inotify instance watches.
struct WatchedFile {
  int watch = 0;  // the watch descriptor, in events read from `fd`
  UniqueFd fd;    // the instance, if it was asked for
};

struct CreatedFile {
  NodeAttr node;
  UniqueFd fd;
  bool created = false;  // false: it existed (only without O_EXCL)
};

struct DirEntry {
  std::string name;
  NodeId id = kNoNode;  // only if ids were asked for
  Attr attr;            // mode 0: the entry vanished or cannot be examined meanwhile
};

struct DirPage {
  std::vector<DirEntry> entries;  // without "." and ".."
  uint64_t next = 0;              // cookie of the next page; 0: this was the last
};

// What setattr changes.
inline constexpr uint32_t kSetMode = 1;
inline constexpr uint32_t kSetUid = 2;
inline constexpr uint32_t kSetGid = 4;
inline constexpr uint32_t kSetSize = 8;
inline constexpr uint32_t kSetAtime = 16;
inline constexpr uint32_t kSetMtime = 32;
inline constexpr uint32_t kSetAtimeNow = 64;
inline constexpr uint32_t kSetMtimeNow = 128;

struct SetAttr {
  uint32_t mask = 0;
  uint32_t mode = 0;  // permission bits; set-id bits on a file: EPERM
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t size = 0;
  Time atime, mtime;
};

// For a client that wants to believe what it knows until it hears of a change. EOPNOTSUPP where
// changes may come that the host's kernel does not see (network, FUSE).
inline constexpr uint32_t kWatchAll = 1;
// The first to watch: makes the instance, and gets it to read events from. EBUSY for later ones,
// EINVAL for others before it.
inline constexpr uint32_t kWatchInstance = 2;

// What the gofer watches for (inotify(7)). Not reading, opening and the like: that is frequent.
inline constexpr uint32_t kWatchMask = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM |
                                       IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF |
                                       IN_MOVE_SELF;

// Whom a new file shall belong to; kKeepOwner: whomever the host gives it to. Only a gofer that
// runs as root can give files away; another one leaves them the caller's, without an error.
inline constexpr uint32_t kKeepOwner = ~0u;
struct Owner {
  uint32_t uid = kKeepOwner;
  uint32_t gid = kKeepOwner;
};

struct StatFs {
  uint64_t type = 0, bsize = 0, blocks = 0, bfree = 0, bavail = 0, files = 0, ffree = 0,
           namelen = 0, frsize = 0;
};

struct Forget {
  NodeId id = kNoNode;
  uint64_t lookups = 0;
};

}  // namespace uks::gofer
