#include "sentry/fs/host/caller.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "platform/base/unique_fd.h"

namespace uks {
namespace {

// Under the kernel lock, but for watch_caller().
UniqueFd& stat_file() {
  static UniqueFd file;
  return file;
}
bool orphaned = false;

}  // namespace

bool parse_caller_stat(std::string_view text, CallerStat& stat) {
  // The name may hold anything, parentheses included.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return false;
  const std::string rest(text.substr(name_end + 1));
  char state = 0;
  int parent = 0, session = 0, device = 0;
  if (sscanf(rest.c_str(), " %c %d %d %d %d %d", &state, &parent, &stat.pgrp, &session, &device,
             &stat.foreground) != 6)
    return false;
  // new_encode_dev()
  const auto number = static_cast<uint32_t>(device);
  stat.terminal =
      number == 0 ? 0
                  : makedev((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xfff00));
  return true;
}

void watch_caller() {
  const int streams[] = {0, 1, 2};
  if (std::ranges::none_of(streams, [](int fd) { return ::isatty(fd) == 1; })) return;
  stat_file().reset(
      ::open(fmt::format("/proc/{}/stat", ::getppid()).c_str(), O_RDONLY | O_CLOEXEC));
}

bool caller_is_in_background(uint64_t device) {
  char text[1024];
  const ssize_t n = stat_file() ? ::pread(stat_file().get(), text, sizeof text, 0) : -1;
  CallerStat stat;
  if (n <= 0 || !parse_caller_stat({text, static_cast<size_t>(n)}, stat)) return false;
  // Opened as /dev/tty, a terminal has that file's number.
  const bool same = device == stat.terminal || device == makedev(5, 0);
  return same && stat.terminal != 0 && stat.foreground > 0 && stat.foreground != stat.pgrp;
}

void note_caller_is_orphaned() { orphaned = true; }
bool caller_is_orphaned() { return orphaned; }

}  // namespace uks
