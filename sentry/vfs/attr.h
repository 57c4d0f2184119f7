// File attributes as the VFS passes them around, and the set of changes setattr() makes.
#pragma once
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

namespace uks {

struct Attr {
  uint64_t ino = 0;
  uint64_t dev = 0;   // as makedev() encodes it
  uint32_t mode = 0;  // type and permission bits
  uint32_t nlink = 1;
  uint32_t uid = 0, gid = 0;
  uint64_t rdev = 0;
  uint64_t size = 0;    // bytes
  uint64_t blocks = 0;  // 512-byte units
  uint32_t blksize = 4096;
  timespec atime{}, mtime{}, ctime{};
  std::optional<timespec> btime;  // absent where the file system does not know it

  bool is_dir() const { return S_ISDIR(mode); }
  bool is_link() const { return S_ISLNK(mode); }
  bool is_regular() const { return S_ISREG(mode); }
};

// Only what has a value changes. ctime moves to now with every change.
struct SetAttr {
  std::optional<uint32_t> mode;  // permission bits, 07777
  std::optional<uint32_t> uid, gid;
  std::optional<uint64_t> size;
  std::optional<timespec> atime, mtime;  // already resolved: no UTIME_NOW/UTIME_OMIT
  bool empty() const { return !mode && !uid && !gid && !size && !atime && !mtime; }
};

// What a new inode starts with; the VFS has applied umask, set-gid directories and fsuid already.
struct NewNode {
  uint32_t mode = 0;  // type and permission bits
  uint32_t uid = 0, gid = 0;
  uint64_t rdev = 0;
};

struct DirEntry {
  std::string name;
  uint64_t ino;
  unsigned char type;  // DT_*
};

timespec now_timespec();
// DT_* of an S_IFMT type.
inline unsigned char dirent_type(uint32_t mode) {
  return static_cast<unsigned char>((mode & S_IFMT) >> 12);
}

}  // namespace uks
