// bench_probe: what the comparison benchmarks run on the host and inside each sandbox.
#include <cstdio>
#include <cstring>

#include "bench/probe/commands.h"

int main(int argc, char** argv) {
  struct Command {
    const char* name;
    int (*run)(int, char**);
  };
  constexpr Command kCommands[] = {
      {"time", uks::bench::time_command},
      {"idle", uks::bench::idle_command},
      {"calls", uks::bench::calls_command},
      {"spin", uks::bench::spin_command},
  };
  for (const Command& command : kCommands) {
    if (argc > 1 && std::strcmp(argv[1], command.name) == 0) {
      return command.run(argc - 2, argv + 2);
    }
  }
  std::fprintf(stderr, "usage: bench_probe time|idle|calls|spin ...\n");
  return 2;
}
