#include "platform/keeper/channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace uks::keeper {

void Channel::send(Op op, int32_t pid, int32_t value, std::string_view text) {
  Message message{};
  message.op = op;
  message.pid = pid;
  message.value = value;
  memcpy(message.text, text.data(), std::min(text.size(), sizeof message.text - 1));
  (void)!::send(socket_.get(), &message, sizeof message, MSG_NOSIGNAL);
}

bool Channel::receive(bool wait) {
  Message message{};
  iovec iov{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &iov;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(sizeof message)) return false;
  UniqueFd fd;
  if (const cmsghdr* c = CMSG_FIRSTHDR(&header); c && c->cmsg_type == SCM_RIGHTS) {
    int raw;
    memcpy(&raw, CMSG_DATA(c), sizeof raw);
    fd.reset(raw);
  }
  if (message.op == Op::kMem) {
    answers_[message.seq] = {std::move(fd), message.value};
  } else {
    events_.push_back(message);
  }
  return true;
}

Result<UniqueFd> Channel::ask(Message& message, int fd) {
  message.seq = next_seq_++;
  iovec iov{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &iov;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  if (::sendmsg(socket_.get(), &header, MSG_NOSIGNAL) < 0) return HostErr();
  while (!answers_.contains(message.seq)) {
    if (!receive(true)) return Err(EIO);
  }
  Answer answer = std::move(answers_[message.seq]);
  answers_.erase(message.seq);
  if (!answer.fd.valid()) return Err(answer.error ? answer.error : EIO);
  return std::move(answer.fd);
}

Result<UniqueFd> Channel::open(Op op, pid_t pid, std::string_view text) {
  const MutexLock lock(receive_mutex_);
  Message message{};
  message.op = op;
  message.pid = pid;
  memcpy(message.text, text.data(), std::min(text.size(), sizeof message.text - 1));
  return ask(message, -1);
}

Result<UniqueFd> Channel::reopen_read_only(int memfd) {
  const MutexLock lock(receive_mutex_);
  Message message{};
  message.op = Op::kReopen;
  return ask(message, memfd);
}

bool Channel::poll(Message& message) {
  const MutexLock lock(receive_mutex_);
  while (events_.empty()) {
    if (!receive(false)) return false;
  }
  message = events_.front();
  events_.pop_front();
  return true;
}

}  // namespace uks::keeper
