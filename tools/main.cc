// The uks binary: the command line, or one of the hidden roles that it starts itself as.
#include <fcntl.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "gofer/server/main.h"
#include "platform/base/log.h"
#include "platform/host/features.h"
#include "platform/host/identity.h"
#include "platform/host/layers.h"
#include "platform/keeper/fds.h"
#include "platform/keeper/start.h"
#include "sentry/boot/main.h"
#include "tools/cli/args.h"
#include "tools/cli/command.h"
#include "tools/cli/notice.h"

namespace uks {
namespace {

// The roles rely on the descriptors of fds.h: somebody who calls them by hand gets a line, not a
// crash.
bool has_role_descriptors() {
  return ::fcntl(keeper::kConfigFd, F_GET_SEALS) >= 0 &&
         ::fcntl(keeper::kFirstGoferFd, F_GETFD) >= 0;
}

// glibc's other arenas open files of /proc and /sys (to count processors, before they shrink),
// which the roles' filters forbid. One arena is enough: the sentry's work is under one lock anyway.
void use_one_arena() { ::mallopt(M_ARENA_MAX, 1); }

int gofer_role() {
  ::prctl(PR_SET_NAME, "uks-gofer");  // for ps and top; exec has left "exe"
  use_one_arena();
  if (!keeper::wait_for_start()) return cli::kExitFailure;
  int connections[keeper::kGoferConnections];
  for (int i = 0; i < keeper::kGoferConnections; ++i) connections[i] = keeper::kFirstGoferFd + i;
  return gofer::gofer_main(keeper::kConfigFd, connections, keeper::kLogFd);
}

int sentry_role() {
  ::prctl(PR_SET_NAME, "uks-sentry");
  use_one_arena();
  HostLayers layers;
  enter_namespaces(layers);
  if (!drop_to_sentry_identity()) {
    cli::print_notice("internal: cannot give up privileges");
    return cli::kExitFailure;
  }
  const auto preparation = keeper::receive_preparation(keeper::kKeeperFd);
  if (!preparation) return cli::kExitFailure;  // the keeper has given up, and said why
  set_up_logging("sentry", keeper::kLogFd, preparation->log_level);
  return sentry_main(preparation->platform, layers);
}

}  // namespace
}  // namespace uks

int main(int argc, char** argv) {
  const char* flag = argc == 2 ? argv[1] : "";
  if (std::strncmp(flag, "--role=", 7) == 0) {
    // The keeper has looked at it already.
    if (const char* features = std::getenv("UKS_FEATURES")) (void)uks::mask_features(features);
    if (!uks::has_role_descriptors()) {
      uks::cli::print_notice("unknown flag --role (see `uks --help`)");
      return uks::cli::kExitFailure;
    }
    if (std::strcmp(flag, "--role=gofer") == 0) return uks::gofer_role();
    if (std::strcmp(flag, "--role=sentry") == 0) return uks::sentry_role();
  }
  return uks::cli::cli_main(argc, argv);
}
