// What the gofer gives up before it answers its first request.
#pragma once
#include <span>

#include "gofer/server/server.h"

namespace uks::gofer {

// Closes every descriptor above 2 that is not in `keep`.
void close_all_but(std::span<const int> keep);

// Resource limits, umask 0, death with the parent, no core files, no attaching, no privileges by
// exec, capabilities reduced to what giving files to guests needs (root: CHOWN DAC_OVERRIDE FOWNER
// FSETID; else none), Landlock where the kernel has it. Before threads are made. False: the process
// is not as it must be.
bool drop_privileges(const Server& server);

// The filter, for all threads. False: it could not be installed.
bool install_filter(const Server& server, std::span<const int> connections, int log_fd);

}  // namespace uks::gofer
