// Files of the host that are passed through: the standard streams. Pipes, sockets, terminals,
// regular files, /dev/null.
#pragma once
#include <string>

#include "platform/base/unique_fd.h"
#include "sentry/fs/host/terminal.h"
#include "sentry/task/event_loop.h"
#include "sentry/vfs/file.h"

namespace uks {

// One host descriptor, shared by the guest descriptions that lead to it. O_NONBLOCK is never set on
// it, since others outside share its description: readiness is asked for with poll before each
// transfer.
class HostStream final : public RefCounted, private HostWatcher {
 public:
  HostStream(EventLoop& loop, UniqueFd fd, std::string name, const struct stat& st, int flags);
  ~HostStream() override;

  int fd() const { return fd_.get(); }
  bool is_regular() const { return S_ISREG(mode_); }
  // False: always ready.
  bool is_watched() const { return watched_; }
  // O_* of the host's description.
  int flags() const { return flags_; }
  const std::string& name() const { return name_; }
  Inode* inode() const { return inode_.get(); }
  // Shows another inode instead of the host's: the terminal's node in /dev.
  void set_inode(Ref<Inode> inode) { inode_ = std::move(inode); }
  uint32_t poll_events() const;

  // One transfer, without the kernel lock. EAGAIN where it would wait.
  Result<size_t> read_some(std::span<char> to);
  Result<size_t> write_some(std::span<const char> from);

  WaitQueue queue;
  Ref<Terminal> terminal;  // null: not a terminal

 private:
  void on_host_events(uint32_t events) override;
  size_t write_limit() const;

  EventLoop& loop_;
  UniqueFd fd_;
  std::string name_;
  uint32_t mode_;
  int flags_;
  bool watched_ = false;
  bool reading_ = false;  // a transfer is under way, without the kernel lock
  bool writing_ = false;
  bool contended_ = false;  // somebody found it so
  Ref<Inode> host_inode_;
  Ref<Inode> inode_;  // what is shown
};

class HostFile final : public File {
 public:
  // `path`: where it was opened, for terminals in /dev; else empty.
  HostFile(Path path, int flags, Ref<HostStream> stream)
      : File(std::move(path), flags), stream_(std::move(stream)) {}
  ~HostFile() override;

  Inode* inode() const override { return stream_->inode(); }
  std::string anonymous_name() const override { return stream_->name(); }
  FileKind kind() const override {
    return stream_->terminal ? FileKind::kTerminal : FileKind::kOther;
  }
  Result<size_t> read(Task& task, IoSink& sink) override;
  Result<size_t> write(Task& task, IoSource& source) override;
  Result<size_t> pread(Task& task, IoSink& sink, int64_t pos) override;
  Result<size_t> pwrite(Task& task, IoSource& source, int64_t pos) override;
  bool seekable() const override { return stream_->is_regular(); }
  Result<int64_t> seek(Task& task, int64_t offset, int whence) override;
  uint32_t poll_events() override { return stream_->poll_events(); }
  WaitQueue* wait_queue() override { return stream_->is_watched() ? &stream_->queue : nullptr; }
  Result<int64_t> ioctl(Task& task, uint32_t request, uint64_t arg) override;
  Result<MappableFd> mappable_fd(Task& task, int prot, bool shared) override;
  Result<void> truncate(Task& task, int64_t size) override;
  Result<void> sync(Task& task, bool data_only) override;
  Result<Ref<File>> reopen(Task& task, int flags) override;

  HostStream& stream() { return *stream_; }

 private:
  Ref<HostStream> stream_;
};

// A standard stream, at start and under the kernel lock. `fd`: taken over. `name`: what
// /proc/self/fd/N shows where the host knows a path ("/dev/pts/3", "/home/a/log"); empty for pipes
// and sockets. Descriptors of one terminal share its Terminal: pass the files made before as
// `others`. The sentry must ignore SIGPIPE.
Result<Ref<HostFile>> make_host_file(EventLoop& loop, UniqueFd fd, std::string name,
                                     const std::vector<Ref<HostFile>>& others);

// A description of its own. EACCES if the host's description does not allow what `flags` asks for.
Result<Ref<File>> open_host_stream(const Ref<HostStream>& stream, Path path, int flags);

}  // namespace uks
