// Inode and FileSystem: what a file system implements. Operations are whole ones (create, rename,
// …); permission checks, name rules and dentries are the VFS's own business (ops.cc, resolve.cc).
//
// All under the kernel lock. An operation may drop it for a while (`Unlocked`) to talk to the host.
#pragma once
#include <sys/statfs.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "sentry/time/timer_queue.h"
#include "sentry/vfs/attr.h"

namespace uks {

class Task;
class File;
class Inode;
class FileLocks;
struct Watch;
struct Path;

// One instance of a file system (a superblock).
class FileSystem : public RefCounted {
 public:
  FileSystem();
  // st_dev of its files: an anonymous device number, unique in the sandbox.
  virtual uint64_t dev() const { return dev_; }
  // As in /proc/mounts.
  virtual const char* type() const = 0;
  virtual std::string options() const { return {}; }
  virtual Result<struct statfs> statfs() = 0;
  virtual Result<void> sync() { return {}; }
  // How long a looked-up name may be believed, in nanoseconds; 0: not at all; kForever: only this
  // kernel changes it.
  static constexpr MonotonicNs kForever = INT64_MAX;
  virtual MonotonicNs name_ttl() const { return kForever; }

 private:
  uint64_t dev_;
};

class Inode : public RefCounted {
 public:
  explicit Inode(FileSystem& fs);
  ~Inode() override;
  FileSystem& fs() const { return *fs_; }
  // Processes whose program it is: while there are any it cannot be opened for writing (ETXTBSY).
  int executions = 0;

  // Made without a name (O_TMPFILE), may be given one. What has lost its last one may not.
  bool is_linkable = false;

  // S_IFMT bits; never change.
  virtual uint32_t type() const = 0;
  bool is_dir() const { return type() == S_IFDIR; }
  bool is_link() const { return type() == S_IFLNK; }
  bool is_regular() const { return type() == S_IFREG; }
  virtual Result<Attr> getattr() = 0;
  // EPERM by default.
  virtual Result<void> setattr(const SetAttr& changes);

  // ---- Directories. Names are 1..255 bytes, no '/', never "." or "..".
  // The child; a null Ref when there is none.
  virtual Result<Ref<Inode>> lookup(Task& task, std::string_view name);
  // The same where it does not matter who asks: file systems override one of the two.
  virtual Result<Ref<Inode>> find(std::string_view name);
  // What is cached about `name` has proven wrong: the next find() looks again.
  virtual void doubt(std::string_view name) { (void)name; }
  // A hint before lookups of names[0], then names[1] in it, …: fetch them in one go.
  virtual void prefetch(std::span<const std::string_view> names) { (void)names; }
  // A hint before lookups of several names in this directory.
  virtual void prefetch_each(std::span<const std::string_view> names) { (void)names; }
  // Makes a regular file, fifo, socket or device node. EEXIST.
  virtual Result<Ref<Inode>> mknod(std::string_view name, const NewNode& node);
  virtual Result<Ref<Inode>> mkdir(std::string_view name, const NewNode& node);
  virtual Result<Ref<Inode>> symlink(std::string_view name, std::string_view target,
                                     const NewNode& node);
  // A second name for `inode`, which is of the same file system.
  virtual Result<void> link(std::string_view name, Inode& inode);
  virtual Result<void> unlink(std::string_view name, Inode& child);
  virtual Result<void> rmdir(std::string_view name, Inode& child);
  // flags: RENAME_NOREPLACE, RENAME_EXCHANGE. `target` is what `new_name` names now, or null.
  virtual Result<void> rename(std::string_view old_name, Inode& source, Inode& new_dir,
                              std::string_view new_name, Inode* target, unsigned flags);
  // An unnamed regular file (O_TMPFILE), which link() may name later. EOPNOTSUPP.
  virtual Result<Ref<Inode>> create_unnamed(const NewNode& node);
  // All entries but "." and "..".
  virtual Result<std::vector<DirEntry>> read_dir(Task& task);
  // The same where it does not matter who asks.
  virtual Result<std::vector<DirEntry>> list();

  // ---- Links.
  virtual Result<std::string> readlink(Task& task);
  // The same where it does not matter who asks.
  virtual Result<std::string> link_text();
  // Magic links (/proc/PID/fd/N, exe, cwd, root) jump to a place instead of giving text.
  virtual bool is_magic_link() const { return false; }
  virtual Result<Path> follow_magic(Task& task);
  // Magic links to anonymous objects have no place: opening them re-opens the object. ENXIO by
  // default.
  virtual Result<Ref<File>> open_magic(Task& task, int flags);

  // ---- Regular files and devices. `flags`: O_*; permission is checked, O_TRUNC is done by the
  // caller.
  virtual Result<Ref<File>> open(Task& task, const Path& path, int flags);
  // Kernel-side I/O for copy-up; short only at end of file.
  virtual Result<size_t> read_at(int64_t pos, std::span<char> buffer);
  virtual Result<size_t> write_at(int64_t pos, std::span<const char> buffer);

  // ---- Extended attributes. ENODATA, EOPNOTSUPP. `flags`: XATTR_CREATE, XATTR_REPLACE.
  virtual Result<std::string> getxattr(std::string_view name);
  virtual Result<void> setxattr(std::string_view name, std::string_view value, int flags);
  virtual Result<void> removexattr(std::string_view name);
  virtual Result<std::vector<std::string>> listxattr();

  virtual Result<struct statfs> statfs() { return fs().statfs(); }

  // POSIX, OFD and flock locks; made at first use.
  FileLocks& locks();
  FileLocks* locks_if_any() { return locks_.get(); }
  // Who watches it (notify.h); each holds this inode.
  Watch* watches = nullptr;
  // The first of them came, the last one went: the host may have to be told. begin_watch() may drop
  // the kernel lock.
  virtual void begin_watch() {}
  virtual void end_watch() {}
  // Names in this directory that were looked up until then are not to be believed any more.
  MonotonicNs names_doubted = 0;
  // State of a fifo or of a bound AF_UNIX socket, put here by whoever implements it.
  Ref<RefCounted> special;

 private:
  Ref<FileSystem> fs_;
  std::unique_ptr<FileLocks> locks_;
};

}  // namespace uks
