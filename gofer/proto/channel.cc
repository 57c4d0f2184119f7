// Packets and descriptors over SOCK_SEQPACKET.
#include "gofer/proto/channel.h"

#include "platform/base/fd_message.h"

namespace uks::gofer {

Result<void> send_packet(int socket, std::string_view bytes, int fd) {
  return send_message(socket, bytes.data(), bytes.size(), fd);
}

Result<Packet> receive_packet(int socket, std::span<char> buffer) {
  Packet packet;
  packet.bytes = std::string_view(
      buffer.data(), TRY(receive_message(socket, buffer.data(), buffer.size(), packet.fd)));
  return packet;
}

}  // namespace uks::gofer
