// The caller's terminal: its modes are put back whatever the guest did to them.
#pragma once
#include <termios.h>

#include <array>
#include <optional>

namespace uks::cli {

class Terminal {
 public:
  // Remembers the modes of those of descriptors 0–2 that are terminals.
  void save();
  // Puts the modes found by save() back where they differ; only in the foreground, since in the
  // background they belong to somebody else.
  void restore();
  // For a stop: remembers the guest's modes and puts the caller's back.
  void leave();
  // After the stop: puts the guest's modes back, if uks is in the foreground.
  void enter();

 private:
  struct Saved {
    std::optional<termios> callers;
    std::optional<termios> guests;
  };
  std::array<Saved, 3> saved_;
};

}  // namespace uks::cli
