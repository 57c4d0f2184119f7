// bench_probe time [--fd N] [--] PROGRAM...: runs it, writes "SECONDS STATUS\n" to a descriptor,
// ends as it ended. In C++ and by vfork, because a Python interpreter's own start of a child costs
// more than some of what is measured.
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "bench/probe/commands.h"

namespace uks::bench {

namespace {

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

int time_command(int argc, char** argv) {
  int result = STDERR_FILENO;
  int first = 0;
  while (first < argc && std::strncmp(argv[first], "--", 2) == 0) {
    if (std::strcmp(argv[first], "--fd") == 0 && first + 1 < argc) {
      result = std::atoi(argv[first + 1]);
      fcntl(result, F_SETFD, FD_CLOEXEC);
      first += 2;
    } else if (std::strcmp(argv[first], "--") == 0) {
      ++first;
      break;
    } else {
      std::fprintf(stderr, "bench_probe time: unknown flag %s\n", argv[first]);
      return 2;
    }
  }
  if (first >= argc) {
    std::fprintf(stderr, "bench_probe time: no program\n");
    return 2;
  }
  const double before = now();
  pid_t child = 0;
  if (const int error = posix_spawnp(&child, argv[first], nullptr, nullptr, argv + first, environ);
      error != 0) {
    std::fprintf(stderr, "bench_probe time: %s: %s\n", argv[first], std::strerror(error));
    return 127;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const double seconds = now() - before;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  dprintf(result, "%.9f %d\n", seconds, code);
  return code;
}

}  // namespace uks::bench
