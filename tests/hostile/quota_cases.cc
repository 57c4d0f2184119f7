// Guests that try to make the sandbox hold more memory than it may.
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "tests/hostile/hostile.h"

namespace hostile {
namespace {

constexpr size_t kPiece = size_t{64} << 20;

// Pieces of shared memory until there are no more; none is touched. Each `map` must end with
// ENOMEM.
template <typename Map>
size_t take_all(Map map) {
  for (size_t n = 0; n < 4096; n++) {
    if (map() == MAP_FAILED) {
      CHECK_THAT(errno == ENOMEM);
      return n;
    }
  }
  fail("no end of memory");
}
// At most a quarter of the machine's memory.
void check_bound(size_t pieces) {
  struct sysinfo info;
  CHECK_THAT(sysinfo(&info) == 0);
  CHECK_THAT(pieces * kPiece <= info.totalram * info.mem_unit / 4);
}

HOSTILE_CASE(shared_memory_without_end, kReturns) {
  const auto map = [] {
    return mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  };
  // In a child: what it held is free when it is dead.
  for (int round = 0; round < 2; round++) {
    const pid_t child = fork();
    if (child == 0) {
      const size_t n = take_all(map);
      CHECK_THAT(n > 0);
      check_bound(n);
      _exit(0);
    }
    int status = 0;
    CHECK_THAT(waitpid(child, &status, 0) == child && status == 0);
  }
}

// Neither the name nor the descriptor is needed for the pages to stay.
HOSTILE_CASE(mapped_and_forgotten_memfds, kReturns) {
  check_bound(take_all([] {
    const int fd = memfd_create("forgotten", 0);
    CHECK_THAT(fd >= 0);
    CHECK_THAT(ftruncate(fd, kPiece) == 0);
    void* memory = mmap(nullptr, kPiece, PROT_READ, MAP_SHARED, fd, 0);
    const int error = errno;
    close(fd);
    errno = error;
    return memory;
  }));
}
HOSTILE_CASE(mapped_and_forgotten_files, kReturns) {
  check_bound(take_all([] {
    const int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    CHECK_THAT(fd >= 0);
    CHECK_THAT(ftruncate(fd, kPiece) == 0);
    void* memory = mmap(nullptr, kPiece, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    close(fd);
    errno = error;
    return memory;
  }));
}
// Growing what is mapped already.
HOSTILE_CASE(memfd_that_grows_under_its_mapping, kReturns) {
  const int fd = memfd_create("grows", 0);
  CHECK_THAT(ftruncate(fd, 4096) == 0);
  void* memory =
      mmap(nullptr, size_t{1} << 40, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  CHECK_THAT(memory != MAP_FAILED);
  size_t n = 0;
  while (ftruncate(fd, static_cast<off_t>((n + 1) * kPiece)) == 0) n++;
  CHECK_THAT(errno == ENOMEM);
  check_bound(n);
}

}  // namespace
}  // namespace hostile
