// Exit code mapping.
#include "tools/cli/exit_status.h"

#include <sys/wait.h>

#include "tools/cli/args.h"

namespace uks::cli {

int exit_code_of(int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
  return kExitFailure;  // stopped or continued is no end: the sentry does not report that as kExit
}

}  // namespace uks::cli
