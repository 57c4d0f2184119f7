#include "sentry/boot/host_texts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "platform/base/unique_fd.h"

namespace uks {

std::map<std::string, std::string> read_host_texts() {
  constexpr size_t kLimit = 1 << 20;
  std::map<std::string, std::string> texts;
  for (const char* path :
       {"/proc/cpuinfo", "/proc/meminfo", "/proc/version", "/sys/devices/system/cpu/online"}) {
    const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
    if (!file) continue;
    std::string text;
    char part[4096];
    ssize_t n = 0;
    while (text.size() < kLimit && (n = ::read(file.get(), part, sizeof part)) != 0) {
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) break;
      text.append(part, static_cast<size_t>(n));
    }
    if (n >= 0) texts[path] = std::move(text);
  }
  return texts;
}

}  // namespace uks
