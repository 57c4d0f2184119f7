#include "platform/keeper/start.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/keeper/fds.h"
#include "platform/keeper/protocol.h"

namespace uks::keeper {

Result<void> send_preparation(int socket, const Preparation& preparation) {
  Message message = {};
  message.op = Op::kPrepare;
  std::string text = preparation.platform;
  text.append(1, '\0').append(preparation.log_level).append(1, '\0');
  if (text.size() > sizeof message.text) return Err(EMSGSIZE);
  memcpy(message.text, text.data(), text.size());
  const ssize_t n = ::send(socket, &message, sizeof message, MSG_NOSIGNAL);
  if (n < 0) return HostErr();
  return {};
}

Result<Preparation> receive_preparation(int socket) {
  Message message = {};
  ssize_t n;
  do {
    n = ::recv(socket, &message, sizeof message, 0);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return HostErr();
  if (n == 0) return Err(EPIPE);
  if (n != sizeof message || message.op != Op::kPrepare) return Err(EPROTO);
  const size_t first = ::strnlen(message.text, sizeof message.text);
  if (first == sizeof message.text) return Err(EPROTO);
  const char* second = message.text + first + 1;
  return Preparation{std::string(message.text, first),
                     std::string(second, ::strnlen(second, sizeof message.text - first - 1))};
}

bool wait_for_start() {
  char byte;
  ssize_t n;
  do {
    n = ::read(kStartFd, &byte, 1);
  } while (n < 0 && errno == EINTR);
  ::close(kStartFd);
  return n == 1;
}

}  // namespace uks::keeper
