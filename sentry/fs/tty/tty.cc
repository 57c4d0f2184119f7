// Job control and controlling terminals, after drivers/tty/tty_jobctrl.c.
#include "sentry/fs/tty/tty.h"

#include <signal.h>
#include <sys/ioctl.h>

#include "sentry/task/kernel.h"
#include "sentry/vfs/file.h"

namespace uks {
namespace {

constexpr int kCapSysAdmin = 21;

bool is_leader(const ThreadGroup& group) { return group.session && group.session->id == group.pid; }

bool ignores_or_blocks(Task& task, int sig) {
  return (task.blocked_signals & signal_bit(sig)) || (*task.group().actions)[sig].handler == 1;
}

SignalInfo kernel_signal(int signo) {
  SignalInfo info;
  info.signo = signo;
  info.code = SI_KERNEL;
  return info;
}

}  // namespace

bool Tty::controls(Task& task) const { return controlling_terminal(task.group()) == this; }

Result<void> Tty::check_background(Task& task, int sig) {
  if (!controls(task)) return {};
  ThreadGroup& group = task.group();
  const pid_t foreground = group.session->foreground_pgid;
  if (foreground == 0 || foreground == group.pgid) return {};
  return stop_background(task, sig, task.kernel().is_orphaned_pgrp(group));
}

Result<void> Tty::stop_background(Task& task, int sig, bool orphaned) {
  if (ignores_or_blocks(task, sig)) {
    if (sig == SIGTTIN) return Err(EIO);
    return {};
  }
  if (orphaned) return Err(EIO);
  task.kernel().send_signal_to_pgrp(task.group().pgid, kernel_signal(sig));
  return Err(kRestartSys);
}

Result<int64_t> Tty::set_foreground(Task& task, uint64_t arg) {
  const auto asked = task.copy_in<int32_t>(UserAddr{arg});
  TRY(check_background(task, SIGTTOU));
  if (!controls(task)) return Err(ENOTTY);
  const int32_t pgid = TRY(asked);
  if (pgid < 0) return Err(EINVAL);
  bool found = false;
  for (const auto& [pid, group] : task.kernel().groups()) {
    if (group->pgid != pgid) continue;
    if (group->session != task.group().session) return Err(EPERM);
    found = true;
  }
  if (!found) return Err(ESRCH);
  task.group().session->foreground_pgid = pgid;
  return 0;
}

// tiocsctty(). Taking another session's terminal away needs CAP_SYS_ADMIN and arg 1.
Result<int64_t> Tty::claim(Task& task, File& file, uint64_t arg) {
  ThreadGroup& group = task.group();
  if (is_leader(group) && session_ == group.session) return 0;
  if (!is_leader(group) || controlling_terminal(group)) return Err(EPERM);
  const bool capable = task.creds().has_cap(kCapSysAdmin);
  if (session_) {
    if (arg != 1 || !capable) return Err(EPERM);
    release();
  }
  if (!file.readable() && !capable) return Err(EPERM);
  set_session(group);
  return 0;
}

Result<int64_t> Tty::job_control_ioctl(Task& task, File& file, uint32_t request, uint64_t arg,
                                       bool master) {
  switch (request) {
    case TIOCGPGRP: {
      if (!master && !controls(task)) return Err(ENOTTY);
      const int32_t pgid = session_ ? session_->foreground_pgid : 0;
      TRY(task.copy_out(UserAddr{arg}, pgid));
      return 0;
    }
    case TIOCSPGRP:
      return set_foreground(task, arg);
    case TIOCGSID:
      if ((!master && !controls(task)) || !session_) return Err(ENOTTY);
      TRY(task.copy_out(UserAddr{arg}, int32_t{session_->id}));
      return 0;
    case TIOCSCTTY:
      if (master) return Err(EPERM);
      return claim(task, file, arg);
    case TIOCNOTTY:
      if (master || !controls(task)) return Err(ENOTTY);
      // A member that gives the terminal up for itself alone is not modelled: sessions have
      // terminals.
      if (!is_leader(task.group())) return Err(EPERM);
      leave_terminal(task.group());
      return 0;
    default:
      return Err(ENOTTY);
  }
}

void Tty::set_session(ThreadGroup& leader) {
  session_ = leader.session;
  session_->terminal = Ref<RefCounted>(this);
  session_->foreground_pgid = leader.pgid;
}

// foreground_pgid stays: it is whom the leader's end hangs up (tty_old_pgrp in the kernel).
void Tty::release() {
  const Ref<Tty> keep(this);
  if (session_) session_->terminal = nullptr;
  session_ = nullptr;
  on_release();
}

void Tty::signal_foreground(Kernel& kernel, int signo) {
  if (!session_ || session_->foreground_pgid <= 0) return;
  kernel.send_signal_to_pgrp(session_->foreground_pgid, kernel_signal(signo));
}

// tty_signal_session_leader(): the leader's end then reaches the foreground group.
void Tty::hang_up(Kernel& kernel) {
  if (!session_) return;
  const Ref<Session> session = session_;
  release();
  ThreadGroup* leader = kernel.find_group(session->id);
  if (!leader || leader->session != session) return;
  const Ref<ThreadGroup> keep(leader);
  kernel.send_signal(*leader, kernel_signal(SIGHUP));
  kernel.send_signal(*leader, kernel_signal(SIGCONT));
}

Tty* controlling_terminal(const ThreadGroup& group) {
  if (!group.session) return nullptr;
  return static_cast<Tty*>(group.session->terminal.get());
}

uint64_t controlling_terminal_device(const ThreadGroup& group) {
  const Tty* tty = controlling_terminal(group);
  return tty ? tty->device() : 0;
}

// tty_open_proc_set_tty().
void Tty::claim_on_open(Task& task, const File& file) {
  ThreadGroup& group = task.group();
  if (!file.readable() || !is_leader(group) || group.session->terminal || session_) return;
  set_session(group);
}

void leave_terminal(ThreadGroup& group) {
  const Ref<Session> session = group.session;
  if (session->terminal) static_cast<Tty*>(session->terminal.get())->release();
  const pid_t foreground = std::exchange(session->foreground_pgid, 0);
  if (foreground <= 0) return;
  group.kernel.send_signal_to_pgrp(foreground, kernel_signal(SIGHUP));
  group.kernel.send_signal_to_pgrp(foreground, kernel_signal(SIGCONT));
}

Result<Ref<File>> open_controlling_terminal(Task& task, Path path, int flags) {
  Tty* tty = controlling_terminal(task.group());
  if (!tty) return Err(ENXIO);
  return tty->open_again(task, std::move(path), flags);
}

}  // namespace uks
