// What every terminal has in common, be it a pseudo terminal of our own or the host's: the session
// it controls, and job control.
#pragma once
#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "sentry/task/task.h"
#include "sentry/vfs/path.h"

namespace uks {

class Kernel;
class File;

// Session::terminal is a Tty. The two hold each other until the session lets go (leave_terminal()).
class Tty : public RefCounted {
 public:
  // st_rdev.
  virtual uint64_t device() const = 0;
  // Another description of it, for open("/dev/tty"). ENXIO.
  virtual Result<Ref<File>> open_again(Task& task, Path path, int flags) = 0;

  // Whether it is the controlling terminal of the task's process.
  bool controls(Task& task) const;
  // Whether the task may go on, as __tty_check_change(): a background process group gets `sig`
  // (SIGTTIN, SIGTTOU) and the call is to be restarted; EIO where that cannot be.
  virtual Result<void> check_background(Task& task, int sig);

  // TIOCGPGRP, TIOCSPGRP, TIOCGSID, TIOCSCTTY, TIOCNOTTY; ENOTTY for all others. `master`: asked
  // through the other end of a pseudo terminal, which controls nobody.
  Result<int64_t> job_control_ioctl(Task& task, File& file, uint32_t request, uint64_t arg,
                                    bool master = false);
  // The controlling terminal of the session that `leader` leads, with its process group in the
  // foreground.
  void set_session(ThreadGroup& leader);
  // Opened without O_NOCTTY: a session leader without a terminal gets it.
  void claim_on_open(Task& task, const File& file);
  // To the foreground process group, if there is one.
  void signal_foreground(Kernel& kernel, int signo);
  // The line is gone: SIGHUP and SIGCONT to the session's leader, and the session has no terminal.
  void hang_up(Kernel& kernel);

 protected:
  // The session let go.
  virtual void on_release() {}
  // What happens to a task of a background process group. `orphaned`: nobody can continue it.
  static Result<void> stop_background(Task& task, int sig, bool orphaned);

 private:
  friend void leave_terminal(ThreadGroup& group);
  Result<int64_t> set_foreground(Task& task, uint64_t arg);
  Result<int64_t> claim(Task& task, File& file, uint64_t arg);
  void release();
  Ref<Session> session_;
};

// Null: none.
Tty* controlling_terminal(const ThreadGroup& group);

// st_rdev of the group's controlling terminal, for /proc/PID/stat; 0: none.
uint64_t controlling_terminal_device(const ThreadGroup& group);

// disassociate_ctty(): the leader of a session gives its terminal up, by TIOCNOTTY or by its end.
// The session has none any more and the foreground group is hung up.
void leave_terminal(ThreadGroup& group);

// open("/dev/tty"). ENXIO: there is none.
Result<Ref<File>> open_controlling_terminal(Task& task, Path path, int flags);

}  // namespace uks
