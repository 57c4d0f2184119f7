// Marks that the overlay leaves in its upper layer.
#pragma once
#include <string_view>

#include "sentry/fs/tmpfs/tmpfs.h"

namespace uks {

inline constexpr std::string_view kOpaqueXattr = "trusted.overlay.opaque";

// A removed lower name: a character device 0:0, which guests cannot make.
inline bool is_whiteout(const TmpfsInode& inode) {
  return inode.type() == S_IFCHR && const_cast<TmpfsInode&>(inode).attr().rdev == 0;
}
// A directory through which the lower one does not shine.
inline bool is_opaque(TmpfsInode& inode) { return inode.getxattr(kOpaqueXattr).has_value(); }
inline void set_opaque(TmpfsInode& inode) { (void)inode.setxattr(kOpaqueXattr, "y", 0); }
inline bool is_private_xattr(std::string_view name) { return name.starts_with("trusted.overlay."); }

}  // namespace uks
