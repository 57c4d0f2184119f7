// One pseudo terminal: the line discipline between a master and its slaves, and their states.
#pragma once
#include <asm/termbits.h>
#include <sys/ioctl.h>

#include "sentry/fs/devpts/line_discipline.h"
#include "sentry/fs/tty/tty.h"
#include "sentry/task/wait_queue.h"
#include "sentry/usermem/io.h"
#include "sentry/vfs/file.h"

namespace uks {

class DevptsRoot;

class Pty final : public Tty {
 public:
  Pty(Kernel& kernel, Ref<DevptsRoot> root, int index);
  ~Pty() override;

  uint64_t device() const override;
  Result<Ref<File>> open_again(Task& task, Path path, int flags) override;
  int index() const { return index_; }
  DevptsRoot& root() { return *root_; }

  // A slave. EIO: locked, or the master is gone.
  Result<Ref<File>> open_slave(Path path, int flags);
  // As open(2) does: without O_NOCTTY it may become the controlling terminal.
  Result<Ref<File>> open_as_node(Task& task, Path path, int flags);
  void slave_opened();
  void slave_closed();
  // Hangs up.
  void master_closed();

  // ---- As the master's and the slaves' files ask. EAGAIN: later.
  Result<size_t> read_master(IoSink& sink);
  Result<size_t> write_master(IoSource& source);
  Result<size_t> read_slave(Task& task, const File& file, IoSink& sink);
  Result<size_t> write_slave(Task& task, IoSource& source);
  uint32_t master_events() const;
  uint32_t slave_events() const;
  Result<int64_t> ioctl(Task& task, File& file, bool master, uint32_t request, uint64_t arg);

  WaitQueue master_queue;
  WaitQueue slave_queue;

 private:
  Result<int64_t> get_termios(Task& task, uint64_t arg, size_t size);
  Result<int64_t> set_termios(Task& task, uint64_t arg, size_t size, bool flush);
  Result<int64_t> set_size(Task& task, uint64_t arg);
  Result<int64_t> flush(bool master, uint64_t what);
  Result<int64_t> flow(Task& task, bool master, uint64_t what);
  Result<int64_t> master_ioctl(Task& task, File& file, uint32_t request, uint64_t arg);
  Result<int64_t> open_peer(Task& task, uint64_t flags);
  Result<bool> input_ready(Task& task, const File& file, size_t wanted);
  void type(std::string_view bytes);
  void set_packet_status(uint8_t add, uint8_t drop = 0);
  // Everybody looks again: input, output or their room changed.
  void wake_all();

  Kernel& kernel_;
  Ref<DevptsRoot> root_;
  int index_;
  LineDiscipline line_;
  winsize size_{};
  int slaves_ = 0;
  bool slave_gone_ = false;  // the last slave was closed (TTY_OTHER_CLOSED)
  bool hung_up_ = false;     // the master is gone
  bool locked_ = true;       // until TIOCSPTLCK with 0
  bool packet_mode_ = false;
  uint8_t packet_status_ = 0;  // TIOCPKT_* bits to be told
};

// Either end.
class PtyFile final : public File {
 public:
  PtyFile(Path path, int flags, Ref<Pty> pty, bool master);
  ~PtyFile() override;

  FileKind kind() const override { return FileKind::kTerminal; }
  Result<size_t> read(Task& task, IoSink& sink) override;
  Result<size_t> write(Task& task, IoSource& source) override;
  uint32_t poll_events() override;
  WaitQueue* wait_queue() override { return master_ ? &pty_->master_queue : &pty_->slave_queue; }
  Result<int64_t> ioctl(Task& task, uint32_t request, uint64_t arg) override;

 private:
  Ref<Pty> pty_;
  bool master_;
};

}  // namespace uks
