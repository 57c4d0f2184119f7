// Pipes and fifos: a byte ring with readers and writers, and the files that are its ends.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "sentry/task/page_quota.h"
#include "sentry/task/wait_queue.h"
#include "sentry/usermem/io.h"
#include "sentry/vfs/file.h"

namespace uks {

class PipeFile;

// The bytes in flight between the ends, and who holds the ends. All under the kernel lock.
class Pipe final : public RefCounted {
 public:
  static constexpr size_t kPageSize = 4096;  // also PIPE_BUF
  static constexpr size_t kDefaultSize = 65536;
  static constexpr size_t kMaxSize = 1 << 20;  // /proc/sys/fs/pipe-max-size
  // /proc/sys/fs/pipe-user-pages-soft in bytes: beyond it new pipes are one page long.
  static constexpr uint64_t kSoftLimit = uint64_t{64} << 20;

  // `quota`: what the bytes in flight are charged to; null: nothing (tests).
  explicit Pipe(Ref<PageQuota> quota = nullptr);
  ~Pipe() override;

  size_t size() const { return used_; }
  size_t capacity() const { return capacity_; }
  size_t free() const { return capacity_ > used_ ? capacity_ - used_ : 0; }

  // Moves what is there, at most sink.remaining(), of a packet only this one, of which the rest is
  // dropped. 0: empty and no writer is left. EAGAIN: empty.
  Result<size_t> read(IoSink& sink);
  // Writes of at most PIPE_BUF bytes are whole or EAGAIN, longer ones may be partial. EPIPE: no
  // reader. `packets` (O_DIRECT): each PIPE_BUF bytes are a packet of their own.
  Result<size_t> write(IoSource& source, bool packets = false);
  // Copies up to `n` bytes from the front without consuming them (tee).
  size_t peek(char* to, size_t n) const;
  // Drops `n` <= size() bytes from the front.
  void consume(size_t n);
  // Appends `n` <= free() bytes.
  void append(const char* from, size_t n, bool packet = false);

  // Takes back the last n bytes that append() got.
  void retract(size_t n);
  // Puts back what consume() took; may exceed the capacity for a while.
  void prepend(const char* from, size_t n);

  // F_SETPIPE_SZ: rounds up to a power of two of pages. Returns the new capacity. EBUSY: more than
  // that is in flight. EPERM: above the limits for those without CAP_SYS_RESOURCE.
  Result<size_t> set_capacity(uint64_t wanted, bool privileged);

  uint32_t read_events() const;
  uint32_t write_events() const;

  // Ends come and go. Each tells waiters what changed.
  void add_end(bool reads, bool writes);
  void remove_end(bool reads, bool writes);
  uint32_t readers() const { return readers_; }
  uint32_t writers() const { return writers_; }
  // How often an end was opened: the rendezvous of fifo_open() in fs/pipe.c compares these.
  uint64_t reader_opens() const { return reader_opens_; }
  uint64_t writer_opens() const { return writer_opens_; }

  // EPOLLIN for readers, EPOLLOUT for writers, EPOLLHUP/EPOLLERR for both.
  WaitQueue queue;
  // Blocking opens of a fifo wait here.
  WaitQueue open_queue;

 private:
  // A run of bytes that is one packet, or plain stream data beside packets.
  struct Segment {
    size_t length;
    bool packet;
  };

  // A ring of at least `needed` bytes. False: over the quota.
  [[nodiscard]] bool grow(size_t needed, bool force = false);
  void drop_ring();
  void push_segment(size_t n, bool packet);
  bool full() const { return free() < kPageSize; }

  std::unique_ptr<char[]> ring_;
  Ref<PageAccount> account_;
  size_t ring_size_ = 0;  // a power of two; grows with the content up to capacity_
  size_t head_ = 0;
  size_t used_ = 0;
  size_t capacity_;
  std::deque<Segment> segments_;  // empty while no packet is in flight
  uint32_t readers_ = 0;
  uint32_t writers_ = 0;
  uint64_t reader_opens_ = 0;
  uint64_t writer_opens_ = 0;
};

// One end (or, for a fifo opened O_RDWR, both).
class PipeFile final : public File {
 public:
  // `inode`: what fstat shows; null when `path` has one.
  PipeFile(Path path, int flags, Ref<Pipe> pipe, Ref<Inode> inode);
  ~PipeFile() override;

  Inode* inode() const override;
  std::string anonymous_name() const override;
  FileKind kind() const override { return FileKind::kPipe; }
  Result<size_t> read(Task& task, IoSink& sink) override;
  Result<size_t> write(Task& task, IoSource& source) override;
  void take_back(std::span<const char> bytes) override {
    pipe_->prepend(bytes.data(), bytes.size());
  }
  uint32_t poll_events() override;
  WaitQueue* wait_queue() override { return &pipe_->queue; }
  Result<int64_t> ioctl(Task& task, uint32_t request, uint64_t arg) override;
  Result<Ref<File>> reopen(Task& task, int flags) override;

  Pipe& pipe() { return *pipe_; }
  // A fifo opened for reading without a writer shows no EPOLLHUP until a writer has come and gone.
  void hide_hup_until_writer() { hup_after_ = pipe_->writer_opens(); }

 private:
  Ref<Pipe> pipe_;
  Ref<Inode> inode_;
  uint64_t hup_after_ = ~uint64_t{0};
};

// SIGPIPE to the writer, as pipe_write() sends it.
void send_sigpipe(Task& task);

// A new pipe: read end, write end. `flags`: O_NONBLOCK, O_DIRECT (packet mode).
Result<std::pair<Ref<File>, Ref<File>>> make_pipe(Task& task, int flags);

// F_GETPIPE_SZ and F_SETPIPE_SZ. EBADF: not a pipe.
Result<int64_t> pipe_fcntl(Task& task, File& file, int command, uint64_t arg);

// Opens a fifo whose pipe lives in `state_slot` of its inode (made here at first). Without
// O_NONBLOCK it waits for the other side: the caller's handler is run again after kBlocked, and
// must not use call().data itself. ENXIO: O_WRONLY|O_NONBLOCK without a reader.
Result<Ref<File>> open_fifo(Task& task, Path path, Ref<RefCounted>& state_slot, int flags);

}  // namespace uks
