// What a git directory looks like on disk (setup.c, path.c and config.c of git), and replacing a
// file in one.
#pragma once
#include <string>
#include <string_view>

#include "gofer/proto/messages.h"
#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks::gofer {

// A repository proper, or a worktree's part of one. HEAD's contents do not count. One that lacks
// HEAD is used through its worktrees.
bool looks_like_git_directory(int fd);
// Whether it will with one more `name` in it.
bool completes_git_directory(int fd, std::string_view name);
// The names that this depends on. Null: `lower`, a name in lower case, is none of them.
const char* mark_of_git_directory(std::string_view lower);
// Directories in a git directory that git writes to. In lower case.
bool is_git_subdirectory(std::string_view lower);

// Whether there is a symbolic link in a git directory, where git would write through it. Objects
// are put in place by rename. True also if it is too big to tell.
bool has_link(int fd);
// Whether each name in the directory `name` is that of a regular file and is allowed. One that is
// not there is fine.
bool has_only(int dir, const char* name, bool (*allowed)(std::string_view name));

// The whole of a regular file. EFBIG: more than `max` bytes; EINVAL: no regular file.
Result<std::string> read_small_file(int dir, const char* name, size_t max);

// Puts a new file with the same mode and owner in the place of `name`: whoever holds the old one
// open writes to nothing. `temporary` is taken on the way.
Result<void> put_file(int dir, const char* name, const char* temporary, std::string_view text,
                      const Attr& like, bool give_away);

// Paths. ASCII only, as git does.
std::string lower_case(std::string_view text);
std::string_view parent_path(std::string_view path);
std::string_view last_name(std::string_view path);
bool is_at_or_below(std::string_view path, std::string_view above);
// For a terminal: nothing that it would act on, and not too much.
std::string printable(std::string_view text);

}  // namespace uks::gofer
