// Entry of the sentry process.
#pragma once
#include <string>

#include "platform/host/layers.h"

namespace uks {

// Runs the sandbox until its first process ends, and reports that to the keeper (kExit). The
// descriptors are those of platform/keeper/fds.h; identity and limits are set already.
// `platform`: auto, trap or ptrace. The configuration is awaited when all that does not need it is
// done. The result is the process's exit status: 0, or 125 if the sandbox could not be started,
// after a kMessage that says why (or because the keeper gave up).
int sentry_main(const std::string& platform, HostLayers layers);

}  // namespace uks
