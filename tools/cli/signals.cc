// Signal set-up of the keeper.
#include "tools/cli/signals.h"

#include <sys/signalfd.h>
#include <time.h>

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

void stop_self(int signo) {
  const bool known = signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
  const int stop = known ? signo : SIGSTOP;
  struct sigaction old;
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(stop, &action, &old);
  sigset_t set, old_mask;
  ::sigemptyset(&set);
  ::sigaddset(&set, stop);
  ::raise(stop);
  ::sigprocmask(SIG_UNBLOCK, &set, &old_mask);  // stops here
  ::sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  ::sigaction(stop, &old, nullptr);
  // The SIGCONT that ended the stop is known already.
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCONT);
  const timespec now = {};
  ::sigtimedwait(&set, nullptr, &now);
}

}  // namespace uks::cli
