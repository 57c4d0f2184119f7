// What the sentry and the keeper say to each other over their SOCK_SEQPACKET pair. The keeper is
// trusted, the sentry is not: the keeper checks every request against the sentry's own children.
#pragma once
#include <cstdint>

namespace uks::keeper {

enum class Op : uint32_t {
  // sentry -> keeper
  kReady = 1,  // the guest's first process is about to run
  kKill = 2,   // SIGKILL (or `value` = SIGSTOP, SIGCONT) to `pid`, if it is a child of the sentry;
               // no answer
  kOpenMem = 3,  // open /proc/`pid`/mem O_RDWR, if a child of the sentry; answered by kMem with the
                 // same seq
  kOpenMaps = 4,  // open /proc/`pid`/`text` (one of maps smaps status stat statm) read-only;
                  // answered by kMem
  kExit = 5,      // the guest's first process ended: `value` is its wait status
  kStopped = 6,   // the guest's foreground job stopped by `value` (a signal): stop uks the same way
  kMessage =
      7,  // print `text` as one `uks: …` line on stderr; with --quiet only if `value` is not 0
          // (it says why the command could not run)
  kReopen =
      9,  // open the memfd that comes along (SCM_RIGHTS) once more, read-only; answered by kMem
  kSummary = 8,  // `value` files of the overlay were discarded
  // keeper -> sentry
  kMem = 32,         // the descriptor asked for (SCM_RIGHTS), or `value` = errno
  kSignal = 33,      // `value`: a signal for the guest (its foreground group; SIGTERM, SIGHUP: its
                     // first process)
  kWindowSize = 34,  // the terminal changed size
  kTimeout = 35,     // --timeout is over: SIGTERM now; the keeper kills all a second later
  kOrphaned = 37,  // uks is in the background and cannot be stopped (kStopped): what would stop it
                   // is EIO
  kPrepare = 36,   // the first message. `text`: the platform asked for and the log level, each
                   // with its NUL
};

struct Message {
  Op op;
  uint32_t seq;
  int32_t pid;
  int32_t value;
  char text[240];
};
static_assert(sizeof(Message) == 256);

}  // namespace uks::keeper
