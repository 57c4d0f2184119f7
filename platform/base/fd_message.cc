#include "platform/base/fd_message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstring>

namespace uks {

Result<void> send_message(int socket, const void* data, size_t size, int fd, int flags) {
  iovec iov{const_cast<void*>(data), size};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  while (::sendmsg(socket, &message, flags | MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return HostErr();
  }
  return {};
}

Result<size_t> receive_message(int socket, void* data, size_t size, UniqueFd& fd, int flags) {
  iovec iov{data, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)];
  msghdr message{};
  ssize_t n;
  do {
    message = {};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    n = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return HostErr();
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int raw;
      memcpy(&raw, CMSG_DATA(header) + i * sizeof raw, sizeof raw);
      UniqueFd owned(raw);
      if (!fd) fd = std::move(owned);
    }
  }
  if (message.msg_flags & MSG_TRUNC) return Err(EMSGSIZE);
  return static_cast<size_t>(n);
}

}  // namespace uks
