// bench_probe idle: marks its process, says "ready", waits for the end of its input. With --file
// PATH it says so by making that file, and ends when the file vanishes: some sandboxes pass no
// input on.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "bench/probe/commands.h"

namespace uks::bench {

void leave_guest_mark() {
  void* page = mmap(reinterpret_cast<void*>(kGuestMark), 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (page != MAP_FAILED) {
    *static_cast<volatile char*>(page) = 1;
  }
}

int idle_command(int argc, char** argv) {
  leave_guest_mark();
  if (argc == 2 && std::strcmp(argv[0], "--file") == 0) {
    const int file = open(argv[1], O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    if (file < 0) {
      std::fprintf(stderr, "bench_probe idle: %s: %s\n", argv[1], std::strerror(errno));
      return 1;
    }
    close(file);
    while (access(argv[1], F_OK) == 0) {
      usleep(100'000);
    }
    return 0;
  }
  std::puts("ready");
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

}  // namespace uks::bench
