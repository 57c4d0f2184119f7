// Entry of the gofer process.
#pragma once
#include <span>

namespace uks::gofer {

// Serves the trees that the configuration names, until all connections are closed. Never returns to
// guest or caller code afterwards: the result is the process's exit status (0, or 125 for a
// configuration that cannot be served, with one `uks: …` line on stderr).
//
// `config_fd`: a memfd or file with what encode_config() of config.h has made.
// Paths are absolute; rule paths may hold the globs * ? and ** (a component that stands for any
// number of components). `connections`: SOCK_SEQPACKET sockets, one served by one thread each; at
// least one. Closes every other descriptor but 0–2 and `log_fd`, gives up what it does not need
// (see README.md).
int gofer_main(int config_fd, std::span<const int> connections, int log_fd = 2);

}  // namespace uks::gofer
