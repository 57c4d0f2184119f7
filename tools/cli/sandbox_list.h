// Finds running sandboxes by what /proc says of their processes: there is no daemon to ask.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace uks::cli {

struct SandboxProcess {
  pid_t pid = 0;
  std::string role;  // keeper, guard, sentry, gofer, zygote or stub
  unsigned threads = 0;
  uint64_t resident_kib = 0;  // shared pages included
};

struct RunningSandbox {
  pid_t keeper = 0;
  uid_t uid = 0;                          // of the caller
  int64_t seconds = 0;                    // since its start
  std::vector<std::string> command;       // as given to exec
  std::vector<SandboxProcess> processes;  // the keeper first
};

// The sandboxes of `uid`, or with `all` of everybody, oldest first. A process counts as a sentry or
// gofer if it calls itself so and runs the same file as its parent, which then is the keeper.
std::vector<RunningSandbox> find_sandboxes(uid_t uid, bool all);

// The words behind the `--` that ends the flags of `uks exec`; all but the program's name if there
// is none.
std::vector<std::string> command_of(const std::vector<std::string>& arguments);

}  // namespace uks::cli
