// The ioctls of pseudo terminals (tty_ioctl(2)).
#include <signal.h>

#include <algorithm>
#include <cstring>

#include "sentry/fs/devpts/devpts.h"
#include "sentry/fs/devpts/pty.h"
#include "sentry/task/kernel.h"
#include "sentry/vfs/fd_table.h"

namespace uks {
namespace {

constexpr size_t kTermiosSize = 36;  // the kernel's struct termios
constexpr uint32_t kTcGets2 = 0x802c542a, kTcSets2 = 0x402c542b, kTcSetsW2 = 0x402c542c,
                   kTcSetsF2 = 0x402c542d;
constexpr uint32_t kIn = EPOLLIN | EPOLLRDNORM;
constexpr uint32_t kOut = EPOLLOUT | EPOLLWRNORM;

// What a remote end may do about ^S and ^Q itself (TIOCPKT_DOSTOP).
bool plain_flow_control(const KernelTermios& t) {
  return (t.iflag & IXON) && t.cc[VSTOP] == 'S' - 0x40 && t.cc[VSTART] == 'Q' - 0x40;
}

}  // namespace

Result<int64_t> Pty::get_termios(Task& task, uint64_t arg, size_t size) {
  const KernelTermios now = line_.termios();
  TRY(task.copy_out(UserAddr{arg}, &now, size));
  return 0;
}

Result<int64_t> Pty::set_termios(Task& task, uint64_t arg, size_t size, bool flush) {
  TRY(check_background(task, SIGTTOU));
  KernelTermios asked{};
  TRY(task.copy_in(UserAddr{arg}, &asked, size));
  const KernelTermios old = line_.termios();
  KernelTermios now = old;
  memcpy(&now, &asked, size);
  // pty_set_termios(): there is no line that could have other bytes.
  now.cflag = (now.cflag & ~(CSIZE | PARENB)) | CS8 | CREAD;
  if (flush) line_.flush_input();
  line_.set_termios(now);
  if (plain_flow_control(old) != plain_flow_control(now)) {
    const bool plain = plain_flow_control(now);
    set_packet_status(plain ? TIOCPKT_DOSTOP : TIOCPKT_NOSTOP, TIOCPKT_DOSTOP | TIOCPKT_NOSTOP);
  }
  if (((old.lflag ^ now.lflag) & EXTPROC) || (now.lflag & EXTPROC))
    set_packet_status(TIOCPKT_IOCTL);
  wake_all();
  return 0;
}

void Pty::wake_all() {
  if (const uint32_t events = master_events()) master_queue.wake(events);
  if (const uint32_t events = slave_events()) slave_queue.wake(events);
}

Result<int64_t> Pty::set_size(Task& task, uint64_t arg) {
  const auto size = TRY(task.copy_in<winsize>(UserAddr{arg}));
  if (memcmp(&size, &size_, sizeof size) == 0) return 0;
  size_ = size;
  signal_foreground(kernel_, SIGWINCH);
  return 0;
}

// The master's input is the slave's output.
Result<int64_t> Pty::flush(bool master, uint64_t what) {
  if (what != TCIFLUSH && what != TCOFLUSH && what != TCIOFLUSH) return Err(EINVAL);
  const bool typed = what == TCIOFLUSH || (what == TCIFLUSH) != master;
  const bool shown = what == TCIOFLUSH || (what == TCOFLUSH) != master;
  if (typed) {
    line_.flush_input();
    set_packet_status(TIOCPKT_FLUSHREAD);
  }
  if (shown) {
    line_.flush_output();
    set_packet_status(TIOCPKT_FLUSHWRITE);
  }
  wake_all();
  return 0;
}

Result<int64_t> Pty::flow(Task& task, bool master, uint64_t what) {
  if (master) return Err(ENOTTY);
  TRY(check_background(task, SIGTTOU));
  switch (what) {
    case TCOOFF:
    case TCOON:
      line_.set_stopped(what == TCOOFF);
      set_packet_status(what == TCOOFF ? TIOCPKT_STOP : TIOCPKT_START,
                        what == TCOOFF ? TIOCPKT_START : TIOCPKT_STOP);
      if (what == TCOON) slave_queue.wake(kOut);
      return 0;
    case TCIOFF:
    case TCION:
      if (const uint8_t c = line_.termios().cc[what == TCIOFF ? VSTOP : VSTART]) {
        line_.write_raw(static_cast<char>(c));
        master_queue.wake(kIn);
      }
      return 0;
    default:
      return Err(EINVAL);
  }
}

// ptm_open_peer(): the slave as devpts shows it, wherever that is mounted.
Result<int64_t> Pty::open_peer(Task& task, uint64_t flags) {
  const std::string name = std::to_string(index_);
  Ref<Inode> inode(root_->child(name));
  if (!inode) return Err(EIO);
  const int open_flags = static_cast<int>(flags) & (O_ACCMODE | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  Path path;
  for (const auto& mount : kernel_.mounts->mounts()) {
    if (&mount->fs() == &root_->fs()) path = {mount, Dentry::make(mount->root(), name, inode)};
  }
  if (!path) return Err(EIO);
  Ref<File> file = TRY(open_as_node(task, std::move(path), open_flags & ~O_CLOEXEC));
  return TRY(task.fds().install(task, std::move(file), open_flags & O_CLOEXEC));
}

Result<int64_t> Pty::master_ioctl(Task& task, File& file, uint32_t request, uint64_t arg) {
  const UserAddr at{arg};
  switch (request) {
    case TIOCGPTN:
      TRY(task.copy_out(at, static_cast<uint32_t>(index_)));
      return 0;
    case TIOCSPTLCK:
      locked_ = TRY(task.copy_in<int32_t>(at)) != 0;
      return 0;
    case TIOCGPTLCK:
      TRY(task.copy_out(at, int32_t{locked_}));
      return 0;
    case TIOCGPTPEER:
      return open_peer(task, arg);
    case TIOCPKT: {
      const bool on = TRY(task.copy_in<int32_t>(at)) != 0;
      if (on && !packet_mode_) packet_status_ = 0;
      packet_mode_ = on;
      return 0;
    }
    case TIOCGPKT:
      TRY(task.copy_out(at, int32_t{packet_mode_}));
      return 0;
    case TIOCSIG: {
      if (arg != SIGINT && arg != SIGQUIT && arg != SIGTSTP) return Err(EINVAL);
      signal_foreground(kernel_, static_cast<int>(arg));
      return 0;
    }
    case FIONREAD:
      TRY(task.copy_out(at, static_cast<int32_t>(line_.output().size())));
      return 0;
    default:
      return job_control_ioctl(task, file, request, arg, true);
  }
}

Result<int64_t> Pty::ioctl(Task& task, File& file, bool master, uint32_t request, uint64_t arg) {
  // hung_up_tty_ioctl().
  if (!master && hung_up_) return Err(request == TIOCSPGRP ? ENOTTY : EIO);
  const UserAddr at{arg};
  switch (request) {
    case TCGETS:
      return get_termios(task, arg, kTermiosSize);
    case kTcGets2:
      return get_termios(task, arg, sizeof(KernelTermios));
    // Nothing waits for a wire here: TCSETSW is TCSETS.
    case TCSETS:
    case TCSETSW:
    case TCSETSF:
      return set_termios(task, arg, kTermiosSize, request == TCSETSF);
    case kTcSets2:
    case kTcSetsW2:
    case kTcSetsF2:
      return set_termios(task, arg, sizeof(KernelTermios), request == kTcSetsF2);
    case TIOCGWINSZ:
      TRY(task.copy_out(at, winsize{size_}));
      return 0;
    case TIOCSWINSZ:
      return set_size(task, arg);
    case TIOCOUTQ:
      TRY(task.copy_out(at, int32_t{0}));
      return 0;
    case TCFLSH:
      TRY(check_background(task, SIGTTOU));
      return flush(master, arg);
    case TCXONC:
      return flow(task, master, arg);
    // send_break() and tcdrain() have nothing to do on a line that is no line.
    case TCSBRK:
    case TCSBRKP:
      TRY(check_background(task, SIGTTOU));
      return 0;
    case TIOCGETD:
      TRY(task.copy_out(at, int32_t{0}));
      return 0;
    case TIOCSTI:
      return Err(EIO);  // dev.tty.legacy_tiocsti = 0
    default:
      break;
  }
  if (master) return master_ioctl(task, file, request, arg);
  if (request == FIONREAD) {
    const size_t n = line_.readable_bytes();
    TRY(task.copy_out(at, static_cast<int32_t>(n)));
    return 0;
  }
  return job_control_ioctl(task, file, request, arg);
}

}  // namespace uks
