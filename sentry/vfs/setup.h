// Building the guest's tree from the keeper's description.
#pragma once
#include <memory>

#include "gofer/proto/client.h"
#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "sentry/vfs/mount.h"
#include "sentry/vfs/view_config.h"

namespace uks {

class Kernel;

// Makes the mounts in order, then the generated files. The kernel lock is held, and dropped for
// calls to the gofer. Missing mount points are made where the tree below takes new names; EINVAL
// for a configuration without a root, ENOENT/EROFS when a mount point is missing and cannot be
// made.
Result<Ref<MountNamespace>> build_view(Kernel& kernel, const ViewConfig& config,
                                       gofer::GoferClient& client);

// Files that the overlays of this namespace lose at the end: changed or new ones since
// build_view().
uint64_t discarded_files(const MountNamespace& mounts);

}  // namespace uks
