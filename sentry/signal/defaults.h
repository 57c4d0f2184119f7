// What signals do when nobody handles them (signal(7)).
#pragma once
#include <signal.h>
#include <sys/epoll.h>

#include "sentry/signal/signal_state.h"

namespace uks {

enum class DefaultAction { kTerminate, kCore, kIgnore, kStop, kContinue };

inline constexpr SignalMask kStopSignals =
    signal_bit(SIGSTOP) | signal_bit(SIGTSTP) | signal_bit(SIGTTIN) | signal_bit(SIGTTOU);
inline constexpr uint32_t kSignalEvents = EPOLLIN;

constexpr DefaultAction default_action(int signo) {
  switch (signo) {
    case SIGCHLD:
    case SIGURG:
    case SIGWINCH:
      return DefaultAction::kIgnore;
    case SIGCONT:
      return DefaultAction::kContinue;
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
      return DefaultAction::kStop;
    case SIGQUIT:
    case SIGILL:
    case SIGABRT:
    case SIGFPE:
    case SIGSEGV:
    case SIGBUS:
    case SIGSYS:
    case SIGTRAP:
    case SIGXCPU:
    case SIGXFSZ:
      return DefaultAction::kCore;
    default:
      return DefaultAction::kTerminate;
  }
}

}  // namespace uks
