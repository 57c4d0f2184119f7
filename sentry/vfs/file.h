// An open file description: what a descriptor refers to. Everything here runs under the kernel
// lock; an implementation that must block on the host drops it with `Unlocked`.
#pragma once
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "platform/base/unique_fd.h"
#include "sentry/task/wait_queue.h"
#include "sentry/usermem/io.h"
#include "sentry/vfs/path.h"

namespace uks {

class Task;
// What mmap needs to know of a file: the host descriptor that is donated to the stub.
struct MappableFd {
  int fd = -1;               // owned by the file or its inode; valid while the kernel lock is held
  uint64_t host_offset = 0;  // where the file's byte 0 lies in `fd`
  bool shared_key = false;  // futex words in it are shared between processes (memfd-backed objects)
  Ref<RefCounted> pages = nullptr;  // what the address space keeps as long as it may map this
  bool anonymous = false;           // no descriptor: fresh anonymous memory (/dev/zero)
};

// What kinds of description calls must tell apart (there is no RTTI here).
enum class FileKind : uint8_t {
  kOther,
  kPipe,
  kEpoll,
  kEventFd,
  kTimerFd,
  kSignalFd,
  kMemfd,
  kSocket,
  kTerminal,
  kPidFd,
  kInotify
};

class EpollItem;

// Receives one directory entry; returns false when it has no room (the entry is then not consumed).
using DirentSink = std::function<bool(std::string_view name, uint64_t ino, int64_t next_offset,
                                      unsigned char d_type)>;

class File : public RefCounted {
 public:
  File(Path path, int flags) : path_(std::move(path)), flags_(flags) {}
  ~File() override;

  // O_* flags of open(2): access mode and status flags. O_PATH files answer EBADF to I/O (checked
  // by the callers in syscalls/).
  int flags() const { return flags_; }
  // Whether this write goes to the end of the file.
  bool appends(const IoSource& source) const {
    return source.append.value_or((flags_ & O_APPEND) != 0);
  }
  void set_status_flags(int flags) {  // F_SETFL: O_APPEND O_NONBLOCK O_ASYNC O_DIRECT O_NOATIME
    constexpr int kSettable = O_APPEND | O_NONBLOCK | O_ASYNC | O_DIRECT | O_NOATIME;
    flags_ = (flags_ & ~kSettable) | (flags & kSettable);
  }
  bool readable() const { return (flags_ & O_ACCMODE) != O_WRONLY && !(flags_ & O_PATH); }
  bool writable() const { return (flags_ & O_ACCMODE) != O_RDONLY && !(flags_ & O_PATH); }
  bool nonblocking() const { return flags_ & O_NONBLOCK; }
  // Where it was opened; empty for anonymous objects, whose name anonymous_name() gives.
  const Path& path() const { return path_; }
  // The inode behind it (anonymous objects have one too, for fstat).
  virtual Inode* inode() const;
  virtual FileKind kind() const { return FileKind::kOther; }
  // "pipe:[123]", "anon_inode:[eventpoll]", "socket:[4]": readlink of /proc/PID/fd/N when path() is
  // empty.
  virtual std::string anonymous_name() const { return {}; }

  // At the file's own position, which they advance. Streams (seekable() false) ignore positions.
  // Returns bytes done; 0 at end of file. When nothing can be done yet: EAGAIN, whatever O_NONBLOCK
  // says; the callers wait on wait_queue() (see do_read in syscalls/read_write.cc).
  virtual Result<size_t> read(Task& task, IoSink& sink);
  virtual Result<size_t> write(Task& task, IoSource& source);
  // The last of what read() gave did not reach the reader. A pipe takes it back.
  virtual void take_back(std::span<const char>) {}
  // At an explicit position. ESPIPE if not seekable.
  virtual Result<size_t> pread(Task& task, IoSink& sink, int64_t pos);
  virtual Result<size_t> pwrite(Task& task, IoSource& source, int64_t pos);
  virtual bool seekable() const { return false; }
  // Whether pread() and pwrite() are asked at all (FMODE_PREAD, FMODE_PWRITE).
  virtual bool positioned() const { return seekable(); }
  // lseek(2) with SEEK_SET/CUR/END/DATA/HOLE. Returns the new position.
  virtual Result<int64_t> seek(Task& task, int64_t offset, int whence);
  // Directory entries from the current position on, which it advances. ENOTDIR.
  virtual Result<void> iterate(Task& task, const DirentSink& sink);

  // EPOLL* bits that hold now.
  virtual uint32_t poll_events() { return EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM; }
  // The queue woken when poll_events() may have changed; null: always ready, cannot be in epoll
  // (EPERM).
  virtual WaitQueue* wait_queue() { return nullptr; }
  // The same, as the calling task sees it: a signalfd is about the signals of who asks.
  virtual uint32_t poll_events_for(Task&) { return poll_events(); }
  virtual WaitQueue* wait_queue_for(Task&) { return wait_queue(); }

  virtual Result<int64_t> ioctl(Task& task, uint32_t request, uint64_t arg);
  // `prot`: PROT_* asked for; `shared`: MAP_SHARED. ENODEV.
  virtual Result<MappableFd> mappable_fd(Task& task, int prot, bool shared);
  virtual Result<void> truncate(Task& task, int64_t size);
  virtual Result<void> allocate(Task& task, int mode, int64_t offset, int64_t length);
  virtual Result<void> sync(Task& task, bool data_only);
  // Called at every close(2) of a descriptor (not only the last): releases POSIX locks.
  virtual void on_close(Task& task) { (void)task; }
  // A new description of the same object, for an open of /proc/PID/fd/N: by its place if it has
  // one; anonymous objects that can be opened again override this. Runs again after kBlocked, as
  // open_fifo() does. ENXIO.
  virtual Result<Ref<File>> reopen(Task& task, int flags);
  // Extra lines of /proc/PID/fdinfo/N.
  virtual std::string fdinfo() const { return {}; }

  // open(2) has given it out: watchers hear of its opening now, of its end later (notify.h).
  void announce();

  // The file position; meaningful for seekable files and directories.
  int64_t pos = 0;
  // fcntl F_SETOWN / F_SETSIG.
  int32_t owner = 0;
  int async_signal = 0;
  // The epoll registrations of this description; ~File ends them (forget_epoll_items).
  EpollItem* epoll_items = nullptr;
  // Set by the lock calls: `inode` has flock or OFD locks of this description.
  void note_locks(Ref<Inode> inode) {
    locks_taken_ = true;
    lock_inode_ = std::move(inode);
  }

 private:
  bool announced_ = false;
  bool locks_taken_ = false;
  Ref<Inode> lock_inode_;
  Path path_;
  int flags_;
};

}  // namespace uks
