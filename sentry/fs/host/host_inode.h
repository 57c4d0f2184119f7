// The inodes of passed-through host files: what fstat on a standard stream shows.
#pragma once
#include "sentry/vfs/inode.h"

namespace uks {

class HostStream;

// Attributes are the host's, under the guest's own device number. The stream owns its inode; the
// inode may outlive it in the /dev tree, and is ENXIO from then on.
Ref<Inode> make_host_inode(HostStream& stream);
// The stream goes away.
void detach_host_inode(Inode& inode);

}  // namespace uks
