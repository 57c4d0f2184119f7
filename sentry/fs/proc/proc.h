// /proc: the sandbox's own processes and settings; nothing of the host's processes shows.
#pragma once
#include "sentry/vfs/inode.h"
#include "sentry/vfs/view_config.h"

namespace uks {

class Kernel;

// A fresh tree. To be called before the sentry's filter goes on (asks the host for its version).
// Mount it read-write: comm and oom_score_adj can be written. Its file system is `&inode->fs()`.
Ref<Inode> make_proc_root(Kernel& kernel, const ViewConfig& config);

}  // namespace uks
