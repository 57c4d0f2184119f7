// /sys: a skeleton with what programs ask for: processors, transparent huge pages, empty classes.
#pragma once
#include "sentry/vfs/inode.h"
#include "sentry/vfs/view_config.h"

namespace uks {

class Kernel;

// A fresh tree, read-only by its modes. Its file system is `&inode->fs()`.
Ref<Inode> make_sys_root(Kernel& kernel, const ViewConfig& config);

}  // namespace uks
