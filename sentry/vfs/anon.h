// Inodes of objects without a name: pipes, sockets, eventfds, epolls. For fstat and /proc/PID/fd.
#pragma once
#include "sentry/vfs/inode.h"

namespace uks {

// A new inode of the anonymous file system (one for the whole sandbox) with its own number. `mode`:
// type and permissions, e.g. S_IFIFO | 0600; owned by the task's fsuid and fsgid.
Ref<Inode> make_anon_inode(Task& task, uint32_t mode);
// Its number, as in "pipe:[123]".
uint64_t anon_inode_number(const Inode& inode);

}  // namespace uks
