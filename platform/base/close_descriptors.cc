#include "platform/base/close_descriptors.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace uks {
namespace {

constexpr unsigned kWithoutProc =
    65536;  // no limit says what is open: it may have been lowered since

struct LinuxDirent64 {
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[1];
};

// -1: not a number ("." and "..").
int number_of(const char* name) {
  int number = 0;
  for (; *name; name++) {
    if (*name < '0' || *name > '9') return -1;
    number = number * 10 + (*name - '0');
  }
  return number;
}

// False: there is no /proc.
bool close_those_listed(unsigned first, unsigned last) {
  const int directory = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return false;
  // Entries are sorted by number and found by it, so that closing some leaves no others out.
  alignas(LinuxDirent64) char buffer[4096];
  long n;
  while ((n = ::syscall(SYS_getdents64, directory, buffer, sizeof buffer)) > 0) {
    for (long at = 0; at < n;) {
      const char* entry = buffer + at;
      uint16_t length;
      memcpy(&length, entry + offsetof(LinuxDirent64, length), sizeof length);
      const int fd = number_of(entry + offsetof(LinuxDirent64, name));
      if (fd >= 0 && fd != directory && static_cast<unsigned>(fd) >= first &&
          static_cast<unsigned>(fd) <= last) {
        ::close(fd);
      }
      at += length;
    }
  }
  ::close(directory);
  return n == 0;
}

}  // namespace

void close_descriptors(unsigned first, unsigned last) {
  if (::syscall(SYS_close_range, first, last, 0) == 0) return;
  if (close_those_listed(first, last)) return;
  for (unsigned fd = first; fd <= std::min(last, kWithoutProc); fd++) ::close(static_cast<int>(fd));
}

}  // namespace uks
