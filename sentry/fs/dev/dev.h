// /dev: a tmpfs with the device nodes that every program expects, served by the sentry itself.
#pragma once
#include "sentry/fs/devpts/devpts.h"
#include "sentry/vfs/inode.h"
#include "sentry/vfs/view_config.h"

namespace uks {

class Kernel;

// A fresh tree: null zero full random urandom tty, the links fd stdin stdout stderr, and the empty
// directories pts and shm (shm is meant to be covered by a tmpfs with mode 01777). Mount it without
// MS_NODEV. Its file system is `&inode->fs()`.
// `pts`: what is to be mounted on pts; with it there is the node ptmx.
Ref<Inode> make_dev_root(Kernel& kernel, const ViewConfig& config, Ref<DevptsRoot> pts = nullptr);

}  // namespace uks
