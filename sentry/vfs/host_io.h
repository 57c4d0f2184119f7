// Small wrappers of host calls on descriptors that the sentry holds.
#pragma once
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uks {

// fstat(2) itself: the C library's takes newfstatat, which names files and so is not for the
// sentry.
inline int host_fstat(int fd, struct stat* st) {
  return static_cast<int>(syscall(SYS_fstat, fd, st));
}

}  // namespace uks
