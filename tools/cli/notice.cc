// Notices.
#include "tools/cli/notice.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/cli/explain.h"

namespace uks::cli {

void print_notice(const std::string& text) {
  const std::string line = "uks: " + escape_controls(text) + "\n";
  // A notice that cannot be written (stderr closed or full) is lost; nothing depends on it.
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
}

bool print_all(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      print_notice(std::string("stdout: ") + std::strerror(errno));
      return false;
    }
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace uks::cli
