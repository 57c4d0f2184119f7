// bench_probe spin: keeps a CPU busy until it is killed or its parent ends.
#include <sys/prctl.h>

#include <csignal>

#include "bench/probe/commands.h"

namespace uks::bench {

int spin_command(int, char**) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    __asm__ volatile("");
  }
}

}  // namespace uks::bench
