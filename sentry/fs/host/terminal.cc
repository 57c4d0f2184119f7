// Job control and ioctls of host terminals, after drivers/tty/tty_jobctrl.c.
#include "sentry/fs/host/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>

#include <array>
#include <cstring>

#include "sentry/fs/host/caller.h"
#include "sentry/fs/host/host_file.h"
#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"

namespace uks {
namespace {

// The kernel's struct termios and termios2, which the C library's differ from.
constexpr size_t kTermiosSize = 36;
constexpr size_t kTermios2Size = 44;
constexpr size_t kLocalFlagsOffset = 12;
constexpr uint32_t kToStop = 0000400;
constexpr uint32_t kTcGets2 = 0x802c542a, kTcSets2 = 0x402c542b, kTcSetsW2 = 0x402c542c,
                   kTcSetsF2 = 0x402c542d;

// Host calls that may wait for output to drain run without the kernel lock.
int host_ioctl(int fd, uint32_t request, void* arg, bool may_wait) {
  if (!may_wait) return ::ioctl(fd, request, arg);
  Unlocked unlocked;
  return ::ioctl(fd, request, arg);
}

Result<int64_t> get(Task& task, int fd, uint32_t request, uint64_t arg, size_t size) {
  std::array<char, 64> buffer{};
  if (::ioctl(fd, request, buffer.data()) < 0) return HostErr();
  TRY(task.copy_out(UserAddr{arg}, buffer.data(), size));
  return 0;
}

Result<int64_t> set(Task& task, int fd, uint32_t request, uint64_t arg, size_t size,
                    bool may_wait) {
  std::array<char, 64> buffer{};
  TRY(task.copy_in(UserAddr{arg}, buffer.data(), size));
  if (host_ioctl(fd, request, buffer.data(), may_wait) < 0) return HostErr();
  return 0;
}

}  // namespace

Result<Ref<File>> Terminal::open_again(Task&, Path path, int flags) {
  if (!stream_) return Err(ENXIO);
  return open_host_stream(Ref<HostStream>(static_cast<HostStream*>(stream_.get())), std::move(path),
                          flags);
}

void Terminal::keep_stream(Ref<HostStream> stream) { stream_ = std::move(stream); }
void Terminal::on_release() { stream_ = nullptr; }

Result<void> Terminal::check_background(Task& task, int sig) {
  TRY(Tty::check_background(task, sig));
  if (!controls(task) || !caller_is_in_background(device_)) return {};
  return stop_background(task, sig, caller_is_orphaned());
}

Result<void> Terminal::check_write(Task& task, int host_fd) {
  if (!controls(task)) return {};
  std::array<char, 64> termios{};
  if (::ioctl(host_fd, TCGETS, termios.data()) < 0) return {};
  uint32_t local_flags = 0;
  memcpy(&local_flags, termios.data() + kLocalFlagsOffset, sizeof local_flags);
  if (!(local_flags & kToStop)) return {};
  return check_background(task, SIGTTOU);
}

Result<int64_t> Terminal::ioctl(Task& task, File& file, int host_fd, uint32_t request,
                                uint64_t arg) {
  switch (request) {
    case TCGETS:
      return get(task, host_fd, request, arg, kTermiosSize);
    case kTcGets2:
      return get(task, host_fd, request, arg, kTermios2Size);
    case TCSETS:
    case TCSETSW:
    case TCSETSF:
      TRY(check_background(task, SIGTTOU));
      return set(task, host_fd, request, arg, kTermiosSize, request != TCSETS);
    case kTcSets2:
    case kTcSetsW2:
    case kTcSetsF2:
      TRY(check_background(task, SIGTTOU));
      return set(task, host_fd, request, arg, kTermios2Size, request != kTcSets2);
    case TIOCGWINSZ:
      return get(task, host_fd, request, arg, sizeof(winsize));
    case TIOCSWINSZ:
      return set(task, host_fd, request, arg, sizeof(winsize), false);
    case FIONREAD:
    case TIOCOUTQ:
      return get(task, host_fd, request, arg, sizeof(int));
    case TCSBRK:
    case TCXONC:
    case TCFLSH: {
      TRY(check_background(task, SIGTTOU));
      Unlocked unlocked;
      if (::ioctl(host_fd, request, static_cast<int>(arg)) < 0) return HostErr();
      return 0;
    }
    case TIOCSCTTY: {
      const int64_t result = TRY(job_control_ioctl(task, file, request, arg));
      keep_stream(Ref<HostStream>(&static_cast<HostFile&>(file).stream()));
      return result;
    }
    default:
      return job_control_ioctl(task, file, request, arg);
  }
}

void adopt_terminal(ThreadGroup& group, File& file) {
  if (file.kind() != FileKind::kTerminal || !group.session || group.session->terminal) return;
  HostStream& stream = static_cast<HostFile&>(file).stream();
  stream.terminal->keep_stream(Ref<HostStream>(&stream));
  stream.terminal->set_session(group);
}

bool signal_foreground(Kernel& kernel, int signo) {
  ThreadGroup* init = kernel.init();
  if (!init || !init->session || init->session->foreground_pgid == 0) return false;
  SignalInfo info;
  info.signo = signo;
  info.code = SI_KERNEL;
  return kernel.send_signal_to_pgrp(init->session->foreground_pgid, info) > 0;
}

}  // namespace uks
