// Permission checks as fs/namei.c and fs/attr.c make them.
#include "sentry/vfs/permissions.h"

#include <linux/capability.h>

namespace uks {

Result<void> check_access(const Credentials& creds, const Attr& attr, int mask) {
  uint32_t bits;
  if (attr.uid == creds.fsuid) {
    bits = attr.mode >> 6;
  } else if (creds.in_group(attr.gid)) {
    bits = attr.mode >> 3;
  } else {
    bits = attr.mode;
  }
  if ((static_cast<int>(bits & 7) & mask) == mask) return {};
  // generic_permission(): directories need no x for DAC_OVERRIDE, files need one x bit at least.
  if (attr.is_dir()) {
    if (!(mask & kMayWrite) && creds.has_cap(CAP_DAC_READ_SEARCH)) return {};
    if (creds.has_cap(CAP_DAC_OVERRIDE)) return {};
    return Err(EACCES);
  }
  if (mask == kMayRead && creds.has_cap(CAP_DAC_READ_SEARCH)) return {};
  if ((!(mask & kMayExec) || (attr.mode & 0111)) && creds.has_cap(CAP_DAC_OVERRIDE)) return {};
  return Err(EACCES);
}

Result<void> check_sticky(const Credentials& creds, const Attr& dir, const Attr& child) {
  if (!(dir.mode & S_ISVTX)) return {};
  if (child.uid == creds.fsuid || dir.uid == creds.fsuid || creds.has_cap(CAP_FOWNER)) return {};
  return Err(EPERM);
}

bool is_owner_or_capable(const Credentials& creds, const Attr& attr) {
  return creds.fsuid == attr.uid || creds.has_cap(CAP_FOWNER);
}

uint32_t mode_without_setid(uint32_t mode) {
  mode &= ~static_cast<uint32_t>(S_ISUID);
  // Set-gid without group execution meant mandatory locking: it stays.
  if (mode & S_IXGRP) mode &= ~static_cast<uint32_t>(S_ISGID);
  return mode;
}

NewNode new_node(const Credentials& creds, const Attr& dir, uint32_t mode) {
  NewNode node{.mode = mode, .uid = creds.fsuid, .gid = creds.fsgid};
  if (dir.mode & S_ISGID) {
    node.gid = dir.gid;
    if (S_ISDIR(mode)) {
      node.mode |= S_ISGID;
    } else if ((mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && !creds.in_group(dir.gid) &&
               !creds.has_cap(CAP_FSETID)) {
      node.mode &= ~static_cast<uint32_t>(S_ISGID);
    }
  }
  return node;
}

}  // namespace uks
