// What a git directory looks like on disk (setup.c, path.c and config.c of git), and replacing a
// file in one.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "gofer/proto/messages.h"
#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks::gofer {

// A repository proper, or a worktree's part of one. HEAD's contents do not count.
bool looks_like_git_directory(int fd);
// Whether it will with one more `name` in it.
bool completes_git_directory(int fd, std::string_view name);

// Calls `visit` for `dir` itself ("") and every directory and every file called .git below it, with
// its path from `dir`, until it answers false. Links are not followed. False: stopped, or there
// were more than `max` names.
using Visit = std::function<bool(const std::string& path, int fd, const Attr& attr)>;
bool visit_directories(int dir, size_t max, const Visit& visit);

// The whole of a regular file. EFBIG: more than `max` bytes; EINVAL: no regular file.
Result<std::string> read_small_file(int dir, const char* name, size_t max);

// Puts a new file with the same mode and owner in the place of `name`: whoever holds the old one
// open writes to nothing. `temporary` is taken on the way.
Result<void> put_file(int dir, const char* name, const char* temporary, std::string_view text,
                      const Attr& like, bool give_away);

}  // namespace uks::gofer
