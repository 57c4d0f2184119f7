// A host terminal as the controlling terminal of a guest session: job control is the guest's own,
// the line discipline is the host's.
#pragma once
#include "sentry/fs/tty/tty.h"

namespace uks {

class HostStream;

class Terminal final : public Tty {
 public:
  explicit Terminal(uint64_t device) : device_(device) {}

  uint64_t device() const override { return device_; }
  Result<Ref<File>> open_again(Task& task, Path path, int flags) override;
  // Also where the sandbox is a background job of the shell outside: the guest's process group
  // stops, and uks with it, if it is the first one (keeper::Op::kStopped).
  Result<void> check_background(Task& task, int sig) override;
  // Writes are only checked with TOSTOP set. `host_fd`: where to ask.
  Result<void> check_write(Task& task, int host_fd);
  // What /dev/tty leads to while this controls a session.
  void keep_stream(Ref<HostStream> stream);

  // The ioctls of terminals, by list; ENOTTY for all others.
  Result<int64_t> ioctl(Task& task, File& file, int host_fd, uint32_t request, uint64_t arg);

 private:
  void on_release() override;
  uint64_t device_;
  Ref<RefCounted> stream_;  // the HostStream, which holds this too: only between claim and release
};

// Makes `file`'s terminal, if it has one, the controlling terminal of the group's session, with the
// group's process group in the foreground. For the first process.
void adopt_terminal(ThreadGroup& group, File& file);

// Sends a signal of the keyboard (SIGINT, SIGQUIT, SIGTSTP, SIGWINCH) to the foreground process
// group of the first process's session. False: there is none.
bool signal_foreground(Kernel& kernel, int signo);

}  // namespace uks
