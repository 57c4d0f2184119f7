// What the keeper does for the sentry with the sentry's children, and the check that they are that.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string_view>

#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks::cli {

// The parent's pid out of a line of /proc/PID/stat; nothing if it is malformed. The name in it may
// hold blanks and brackets.
std::optional<pid_t> parse_stat_parent(std::string_view stat);

// Sends SIGKILL, SIGSTOP or SIGCONT (else EINVAL) to `pid`, or the process whose thread `pid` is,
// if that is a child of `parent`. ESRCH: no such process; EPERM: not its child.
Result<void> signal_child(pid_t pid, pid_t parent, int signo);

// Opens /proc/`pid`/mem for reading and writing, if it is a child of `parent`. ESRCH, EPERM, or
// what open(2) says (EACCES, EPERM by Yama: the sentry then uses copy orders).
Result<UniqueFd> open_child_mem(pid_t pid, pid_t parent);

// Opens /proc/`pid`/`name` for reading; `name` is one of maps smaps status stat statm, else EINVAL.
// Or, with `pid` the parent itself, the list of its first thread's "children".
Result<UniqueFd> open_child_text(pid_t pid, pid_t parent, std::string_view name);

// A read-only descriptor of the memfd `fd`. EINVAL: it is no memfd (nothing else may gain rights
// here).
Result<UniqueFd> reopen_memfd(int fd);

}  // namespace uks::cli
