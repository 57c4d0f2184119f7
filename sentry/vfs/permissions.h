// Who may do what with a file: mode bits, capabilities, sticky directories.
#pragma once
#include "platform/base/result.h"
#include "sentry/cred/credentials.h"
#include "sentry/vfs/attr.h"

namespace uks {

// Bits of a wanted access, numbered as in access(2).
inline constexpr int kMayExec = 1;
inline constexpr int kMayWrite = 2;
inline constexpr int kMayRead = 4;

// EACCES unless `creds` (fsuid, fsgid, groups, capabilities) have all of `mask` on a file with
// `attr`.
Result<void> check_access(const Credentials& creds, const Attr& attr, int mask);
// May an entry with `child` attributes be removed from `dir`? EPERM in another's sticky directory.
Result<void> check_sticky(const Credentials& creds, const Attr& dir, const Attr& child);
bool is_owner_or_capable(const Credentials& creds, const Attr& attr);
// What a write or truncation does to set-id bits, unless CAP_FSETID: the mode without them.
uint32_t mode_without_setid(uint32_t mode);
// The attributes a new node gets in `dir`: fsuid, fsgid or the set-gid directory's group.
// `mode` has type bits and is masked already.
NewNode new_node(const Credentials& creds, const Attr& dir, uint32_t mode);

}  // namespace uks
