// Packets and descriptors over SOCK_SEQPACKET.
#include "gofer/proto/channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstring>

namespace uks::gofer {

Result<void> send_packet(int socket, std::string_view bytes, int fd) {
  iovec iov{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return HostErr();
  }
  return {};
}

Result<Packet> receive_packet(int socket, std::span<char> buffer) {
  iovec iov{buffer.data(), buffer.size()};
  // Room for more than the one descriptor expected: what a hostile peer sends is seen here and
  // closed.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)];
  msghdr message{};
  ssize_t size;
  do {
    message = {};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return HostErr();
  Packet packet;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      UniqueFd owned(fd);
      if (!packet.fd) packet.fd = std::move(owned);
    }
  }
  if (message.msg_flags & MSG_TRUNC) return Err(EMSGSIZE);
  packet.bytes = std::string_view(buffer.data(), static_cast<size_t>(size));
  return packet;
}

}  // namespace uks::gofer
