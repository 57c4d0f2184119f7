// How the roles' start-up and the keeper's computation of the view run side by side: what needs no
// configuration is done before it is there.
#pragma once
#include <string>

#include "platform/base/result.h"

namespace uks::keeper {

// What the sentry has to know to make zygotes and threads.
struct Preparation {
  std::string platform;   // auto, trap, ptrace
  std::string log_level;  // as --log-level takes it
};

// The keeper's part. The host's errno; EMSGSIZE: the texts are too long.
Result<void> send_preparation(int socket, const Preparation& preparation);
// The sentry's part, on kKeeperFd. Waits; EPIPE if the keeper has given up, EPROTO if it said
// something else.
Result<Preparation> receive_preparation(int socket);

// Waits for the keeper to complete the configuration; false if it gave up, after it has said why.
// Closes kStartFd.
bool wait_for_start();

}  // namespace uks::keeper
