// Notices.
#include "tools/cli/notice.h"

#include <unistd.h>

#include "tools/cli/explain.h"

namespace uks::cli {

void print_notice(const std::string& text) {
  const std::string line = "uks: " + escape_controls(text) + "\n";
  // A notice that cannot be written (stderr closed or full) is lost; nothing depends on it.
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace uks::cli
