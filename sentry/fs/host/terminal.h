// A host terminal as the controlling terminal of a guest session: job control is the guest's own,
// the line discipline is the host's.
#pragma once
#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "sentry/task/task.h"
#include "sentry/vfs/path.h"

namespace uks {

class Kernel;
class File;

// Session::terminal is a HostStream of the terminal.
class Terminal final : public RefCounted {
 public:
  explicit Terminal(uint64_t device) : device_(device) {}

  // st_rdev.
  uint64_t device() const { return device_; }
  bool controls(Task& task) const;

  // Whether the task may go on, as __tty_check_change(): a background process group gets `sig`
  // (SIGTTIN, SIGTTOU) and the call is to be restarted; EIO where that cannot be.
  Result<void> check_background(Task& task, int sig);
  // Writes are only checked with TOSTOP set. `host_fd`: where to ask.
  Result<void> check_write(Task& task, int host_fd);

  // The ioctls of terminals, by list; ENOTTY for all others.
  Result<int64_t> ioctl(Task& task, int host_fd, uint32_t request, uint64_t arg);

 private:
  Result<int64_t> set_foreground(Task& task, uint64_t arg);
  uint64_t device_;
};

// Makes `file`'s terminal, if it has one, the controlling terminal of the group's session, with the
// group's process group in the foreground. For the first process.
void adopt_terminal(ThreadGroup& group, File& file);

// st_rdev of the session's terminal, for /proc/PID/stat; 0: none.
uint64_t controlling_terminal_device(const ThreadGroup& group);

// Sends a signal of the keyboard (SIGINT, SIGQUIT, SIGTSTP, SIGWINCH) to the foreground process
// group of the first process's session. False: there is none.
bool signal_foreground(Kernel& kernel, int signo);

// open("/dev/tty"): the controlling terminal. ENXIO: none.
Result<Ref<File>> open_controlling_terminal(Task& task, Path path, int flags);

}  // namespace uks
