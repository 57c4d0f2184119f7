// What system calls do to the tree: open, make, remove, rename, change. Checks permissions and name
// rules, calls the inodes, keeps the dentries right.
#pragma once
#include "sentry/vfs/file.h"
#include "sentry/vfs/fs_context.h"
#include "sentry/vfs/resolve.h"

namespace uks {

struct OpenHow {
  int flags = 0;
  uint32_t mode = 0;     // permission bits for O_CREAT, before umask
  uint64_t resolve = 0;  // RESOLVE_* of openat2
};

// open(2) and its kin, all flags but O_CLOEXEC (the caller's). kBlocked from fifos.
Result<Ref<File>> open_file(Task& task, const Path& base, std::string_view path,
                            const OpenHow& how);
// Opens a place already resolved: permission checks, O_TRUNC, O_DIRECTORY; not O_CREAT.
Result<Ref<File>> open_place(Task& task, const Path& place, int flags);
// For execve: a regular file that may be executed, opened for reading. `flags`: AT_EMPTY_PATH,
// AT_SYMLINK_NOFOLLOW. EACCES, ENOENT, ELOOP, …
Result<Ref<File>> open_exec(Task& task, int dirfd, std::string_view path, int flags);

// EROFS for a read-only mount.
Result<void> want_write(const Path& place);
// Access by mode bits and by read-only mounts: `mask` of kMay*.
Result<void> check_place(Task& task, const Path& place, int mask);

Result<void> make_node(Task& task, const Path& base, std::string_view path, uint32_t mode,
                       uint64_t rdev);
Result<void> make_directory(Task& task, const Path& base, std::string_view path, uint32_t mode);
Result<void> make_symlink(Task& task, std::string_view target, const Path& base,
                          std::string_view path);
Result<void> make_link(Task& task, const Path& old_place, const Path& base, std::string_view path);
// For bind(2) of AF_UNIX: makes the socket node; EADDRINUSE if the name exists. The place of the
// node.
Result<Path> make_socket_node(Task& task, std::string_view path, uint32_t mode);
Result<void> remove_file(Task& task, const Path& base, std::string_view path);
Result<void> remove_directory(Task& task, const Path& base, std::string_view path);
Result<void> rename_file(Task& task, const Path& old_base, std::string_view old_path,
                         const Path& new_base, std::string_view new_path, unsigned flags);

// setattr with the checks of notify_change(): ownership, capabilities, set-id rules, read-only
// mounts.
Result<void> change_mode(Task& task, const Path& place, uint32_t mode);
Result<void> change_owner(Task& task, const Path& place, uint32_t uid, uint32_t gid);  // ~0u: keep
// Null times mean now. UTIME_NOW and UTIME_OMIT are honoured.
Result<void> change_times(Task& task, const Path& place, const timespec* times);
Result<void> truncate_place(Task& task, const Path& place, int64_t size);

}  // namespace uks
