// What the sentry sees of its caller's job control: a sandbox is one job of the shell that it was
// started from.
#pragma once
#include <cstdint>
#include <string_view>

namespace uks {

// /proc/PID/stat of the keeper, as far as terminals go (proc(5)).
struct CallerStat {
  int32_t pgrp = 0;
  uint64_t terminal = 0;    // st_rdev of the controlling terminal; 0: none
  int32_t foreground = -1;  // its foreground process group
};
// False if the text is not of that form.
bool parse_caller_stat(std::string_view text, CallerStat& stat);

// Opens that file, if one of the standard streams is a terminal. Before the filter.
void watch_caller();
// Whether `device` (st_rdev) is the caller's controlling terminal with another job in the
// foreground. The host does no job control for the sentry, which is in a session of its own.
bool caller_is_in_background(uint64_t device);

// The host says that the caller's process group is orphaned: it cannot be stopped, and reads from
// the background are EIO (setpgid(2)). It stays so.
void note_caller_is_orphaned();
bool caller_is_orphaned();

}  // namespace uks
