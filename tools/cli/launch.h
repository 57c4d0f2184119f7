// Starting the other roles: a fixed set of descriptors, re-execution of this binary.
#pragma once
#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks::cli {

struct HandedFd {
  int from;  // in the keeper
  int to;    // in the role
};

// Stays where it is, and untouched, until the role has execed or the process has ended: the child
// reads it until then.
struct Role {
  const char* name;           // "gofer", "sentry": becomes --role=NAME
  std::vector<HandedFd> fds;  // everything the role gets; any other descriptor is closed

  // start_role()'s own.
  struct Spawn {
    pid_t parent = 0;
    uint64_t ignored = 0;  // signals, a bit each
    std::vector<std::pair<int, rlimit>> limits;
    std::string program = "uks", role_flag, features;
    char* argv[3] = {};
    char* env[2] = {};
    bool shares_memory = false;
    alignas(16) std::array<char, 16384> stack;
  };
  Spawn spawn{};
};

struct Child {
  pid_t pid = -1;
  UniqueFd pidfd;
};

// Starts a role. It leads a session of its own (the terminal's signals are for the keeper alone),
// dies with this process, has no environment but UKS_FEATURES, an empty signal mask, default
// dispositions, no core dumps, and soft limits of its own resources raised to the hard ones.
Result<Child> start_role(Role& role);

// What the roles cannot do without, as a sentence; empty if the hard limits here are high enough.
std::string too_low_limit();

// An anonymous file for a role's configuration.
Result<UniqueFd> make_config_file(const char* name);

// Writes the configuration and seals it: the role cannot change what it or the keeper reads there.
Result<void> fill_config_file(int fd, const std::string& content);

}  // namespace uks::cli
