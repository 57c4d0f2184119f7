// The subcommands of bench_probe. Each gets the arguments after its own name and returns the exit
// code.
#pragma once

namespace uks::bench {

int time_command(int argc, char** argv);   // runs a program and says how long it took
int idle_command(int argc, char** argv);   // waits, to be looked at from the host
int calls_command(int argc, char** argv);  // makes every system call once
int spin_command(int argc, char** argv);   // keeps a CPU busy

// Where every guest of the benchmarks maps a page, so that its process can be told from a sandbox's
// own processes.
inline constexpr unsigned long kGuestMark = 0x5eed00000000;
void leave_guest_mark();

}  // namespace uks::bench
