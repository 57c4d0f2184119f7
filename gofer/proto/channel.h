// One packet over a SOCK_SEQPACKET socket, with at most one descriptor beside it.
#pragma once
#include <span>
#include <string_view>

#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks::gofer {

// Sends `bytes`, and `fd` if not negative (which stays the caller's). Retries EINTR.
Result<void> send_packet(int socket, std::string_view bytes, int fd = -1);

struct Packet {
  std::string_view bytes;  // in the caller's buffer; empty: the peer is gone
  UniqueFd fd;
};

// Receives a packet. Longer than `buffer`: EMSGSIZE. Descriptors beyond the first are closed.
Result<Packet> receive_packet(int socket, std::span<char> buffer);

}  // namespace uks::gofer
