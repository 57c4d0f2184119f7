// Entry of the sentry process.
#pragma once
#include "platform/host/layers.h"
#include "sentry/boot/config.h"

namespace uks {

// Runs the sandbox until its first process ends, and reports that to the keeper (kExit). The
// descriptors are those of platform/keeper/fds.h; identity and limits are set already. The result
// is the process's exit status: 0, or 125 if the sandbox could not be started, after a kMessage
// that says why.
int sentry_main(SandboxConfig config, HostLayers layers);

}  // namespace uks
