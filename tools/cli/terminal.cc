// Terminal modes. SIGTTOU must be blocked by the caller: tcsetattr(3) from the background would
// stop us.
#include "tools/cli/terminal.h"

#include <unistd.h>

#include <cstring>

namespace uks::cli {
namespace {

// ENOTTY: not our controlling terminal, so no job control applies to us there.
bool may_change(int fd) {
  const pid_t foreground = ::tcgetpgrp(fd);
  return foreground < 0 || foreground == ::getpgrp();
}

void apply(int fd, const termios& modes) {
  termios now;
  if (::tcgetattr(fd, &now) != 0 || !may_change(fd)) return;
  const bool same = now.c_iflag == modes.c_iflag && now.c_oflag == modes.c_oflag &&
                    now.c_cflag == modes.c_cflag && now.c_lflag == modes.c_lflag &&
                    std::memcmp(now.c_cc, modes.c_cc, sizeof now.c_cc) == 0;
  if (!same) ::tcsetattr(fd, TCSANOW, &modes);
}

}  // namespace

void Terminal::save() {
  for (int fd = 0; fd < 3; ++fd) {
    termios modes;
    if (::tcgetattr(fd, &modes) == 0) saved_[static_cast<size_t>(fd)].callers = modes;
  }
}

void Terminal::restore() {
  for (int fd = 0; fd < 3; ++fd) {
    const Saved& saved = saved_[static_cast<size_t>(fd)];
    if (saved.callers) apply(fd, *saved.callers);
  }
}

void Terminal::leave() {
  for (int fd = 0; fd < 3; ++fd) {
    Saved& saved = saved_[static_cast<size_t>(fd)];
    termios modes;
    if (saved.callers && may_change(fd) && ::tcgetattr(fd, &modes) == 0) saved.guests = modes;
  }
  restore();
}

void Terminal::enter() {
  for (int fd = 0; fd < 3; ++fd) {
    Saved& saved = saved_[static_cast<size_t>(fd)];
    if (!saved.callers) continue;
    // The shell may have changed the modes meanwhile (stty): those are what an exit puts back.
    termios modes;
    if (may_change(fd) && ::tcgetattr(fd, &modes) == 0) saved.callers = modes;
    if (!saved.guests) continue;
    apply(fd, *saved.guests);
    saved.guests.reset();
  }
}

}  // namespace uks::cli
