// signalfd(2), after fs/signalfd.c.
#include "sentry/fs/signalfd/signalfd.h"

#include <sys/signalfd.h>

#include <fmt/format.h>

#include "sentry/task/kernel.h"
#include "sentry/vfs/anon.h"

namespace uks {
namespace {

signalfd_siginfo to_record(const SignalInfo& info) {
  signalfd_siginfo r{};
  r.ssi_signo = static_cast<uint32_t>(info.signo);
  r.ssi_errno = info.error;
  r.ssi_code = info.code;
  const bool is_fault =
      info.code > 0 && (info.signo == SIGSEGV || info.signo == SIGBUS || info.signo == SIGILL ||
                        info.signo == SIGFPE || info.signo == SIGTRAP);
  if (info.code == SI_TIMER) {
    r.ssi_tid = static_cast<uint32_t>(info.timer.timer_id);
    r.ssi_overrun = static_cast<uint32_t>(info.timer.overrun);
    r.ssi_ptr = info.timer.value;
    r.ssi_int = static_cast<int32_t>(info.timer.value);
  } else if (info.signo == SIGCHLD && info.code > 0) {
    r.ssi_pid = static_cast<uint32_t>(info.child.pid);
    r.ssi_uid = info.child.uid;
    r.ssi_status = info.child.status;
    r.ssi_utime = static_cast<uint64_t>(info.child.utime);
    r.ssi_stime = static_cast<uint64_t>(info.child.stime);
  } else if (is_fault) {
    r.ssi_addr = info.fault.addr;
    r.ssi_addr_lsb = static_cast<uint16_t>(info.fault.addr_lsb);
  } else if (info.signo == SIGPOLL && info.code > 0) {
    r.ssi_band = static_cast<uint32_t>(info.poll.band);
    r.ssi_fd = info.poll.fd;
  } else if (info.code != SI_KERNEL) {
    r.ssi_pid = static_cast<uint32_t>(info.rt.pid);
    r.ssi_uid = info.rt.uid;
    r.ssi_ptr = info.rt.value;
    r.ssi_int = static_cast<int32_t>(info.rt.value);
  }
  return r;
}

}  // namespace

SignalFd::SignalFd(SignalMask mask, int flags, Ref<Inode> inode)
    : File(Path{}, flags), mask_(mask & ~kUnblockable), inode_(std::move(inode)) {}

SignalFd::~SignalFd() = default;

Result<size_t> SignalFd::read(Task& task, IoSink& sink) {
  static_assert(sizeof(signalfd_siginfo) == 128);
  if (sink.remaining() < sizeof(signalfd_siginfo)) return Err(EINVAL);
  size_t done = 0;
  while (sink.remaining() >= sizeof(signalfd_siginfo)) {
    SignalInfo info;
    if (!task.kernel().take_signal(task, ~mask_, info)) break;
    const auto record = to_record(info);
    // A signal that cannot be handed over is lost, as on Linux.
    auto n = sink.write_whole(&record, sizeof record);
    if (!n) return done ? Result<size_t>(done) : Err(n.error());
    done += sizeof record;
  }
  if (done == 0) return Err(EAGAIN);
  return done;
}

// signalfd_poll()
uint32_t SignalFd::poll_events_for(Task& task) {
  const SignalMask pending = task.group().pending.pending() | task.pending.pending();
  return pending & mask_ ? uint32_t{EPOLLIN} : 0u;
}

std::string SignalFd::fdinfo() const { return fmt::format("sigmask:\t{:016x}\n", mask_); }

void SignalFd::set_mask(Task& task, SignalMask mask) {
  mask_ = mask & ~kUnblockable;
  task.group().signal_events.wake(EPOLLIN | EPOLLRDNORM);
}

}  // namespace uks
