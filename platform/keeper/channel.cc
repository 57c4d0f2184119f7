#include "platform/keeper/channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "platform/base/fd_message.h"

namespace uks::keeper {

void Channel::send(Op op, int32_t pid, int32_t value, std::string_view text) {
  Message message{};
  message.op = op;
  message.pid = pid;
  message.value = value;
  memcpy(message.text, text.data(), std::min(text.size(), sizeof message.text - 1));
  (void)send_message(socket_.get(), &message, sizeof message);
}

bool Channel::receive(bool wait) {
  Message message{};
  UniqueFd fd;
  const auto n = receive_message(socket_.get(), &message, sizeof message, fd, wait ? 0 : MSG_DONTWAIT);
  if (!n || *n != sizeof message) return false;
  if (message.op == Op::kMem) {
    answers_[message.seq] = {std::move(fd), message.value};
  } else {
    events_.push_back(message);
  }
  return true;
}

Result<UniqueFd> Channel::ask(Message& message, int fd) {
  message.seq = next_seq_++;
  TRY(send_message(socket_.get(), &message, sizeof message, fd));
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
