// Signal set-up of the keeper.
#include "tools/cli/signals.h"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace uks::cli {
namespace {

constexpr int kForwarded[] = {SIGTERM, SIGHUP,  SIGINT,  SIGQUIT, SIGWINCH,
                              SIGCONT, SIGTSTP, SIGUSR1, SIGUSR2};

}  // namespace

Result<SignalState> take_signals() {
  SignalState state = {};
  sigset_t old;
  ::sigprocmask(SIG_SETMASK, nullptr, &old);
  for (int signo = 1; signo < NSIG; ++signo) {
    struct sigaction action;
    if (::sigaction(signo, nullptr, &action) != 0) continue;
    const uint64_t bit = uint64_t{1} << (signo - 1);
    if (action.sa_handler == SIG_IGN) state.ignored |= bit;
    if (::sigismember(&old, signo) == 1) state.blocked |= bit;
  }
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, nullptr);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
  ::sigaction(SIGXFSZ, &action, nullptr);  // EFBIG says it

  ::sigemptyset(&state.taken);
  ::sigaddset(&state.taken, SIGCHLD);
  for (const int signo : kForwarded) {
    // A blocked signal is queued even if it is ignored; ignoring must win.
    if (!(state.ignored & uint64_t{1} << (signo - 1))) ::sigaddset(&state.taken, signo);
  }
  sigset_t mask = state.taken;
  ::sigaddset(&mask, SIGTTOU);
  if (::sigprocmask(SIG_SETMASK, &mask, nullptr) != 0) return HostErr();
  state.fd.reset(::signalfd(-1, &state.taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!state.fd) return HostErr();
  return state;
}

namespace {

// In the background the host's own check stops the whole job, again and again until it is in the
// foreground. False: EIO, it cannot be stopped.
bool wait_for_foreground(int terminal, int signo) {
  for (;;) {
    char none;
    const ssize_t r = signo == SIGTTIN ? ::read(terminal, &none, 0) : ::tcdrain(terminal);
    if (r >= 0 || errno != EINTR) return r >= 0 || errno != EIO;
  }
}

}  // namespace

bool stop_self(int signo) {
  const bool known = signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
  const int stop = known ? signo : SIGSTOP;
  const UniqueFd terminal(signo == SIGTTIN || signo == SIGTTOU
                              ? ::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
                              : -1);
  const pid_t foreground = terminal ? ::tcgetpgrp(terminal.get()) : -1;
  const bool in_background = foreground > 0 && foreground != ::getpgrp();
  bool could = true;
  struct sigaction old;
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(stop, &action, &old);
  sigset_t set, old_mask;
  ::sigemptyset(&set);
  ::sigaddset(&set, stop);
  if (!in_background) ::raise(stop);
  ::sigprocmask(SIG_UNBLOCK, &set, &old_mask);                            // stops here
  if (in_background) could = wait_for_foreground(terminal.get(), signo);  // or here
  ::sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  ::sigaction(stop, &old, nullptr);
  // The SIGCONT that ended the stop is known already.
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCONT);
  const timespec now = {};
  ::sigtimedwait(&set, nullptr, &now);
  return could;
}

}  // namespace uks::cli
