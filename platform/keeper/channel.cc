#include "platform/keeper/channel.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "platform/base/fd_message.h"

namespace uks::keeper {

Channel::Channel(UniqueFd socket)
    : socket_(std::move(socket)), news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Channel::send(Op op, int32_t pid, int32_t value, std::string_view text) {
  Message message{};
  message.op = op;
  message.pid = pid;
  message.value = value;
  text.copy(message.text, sizeof message.text - 1);
  const MutexLock lock(send_mutex_);
  // Kills and stops of stubs are what there may be many of; each is for a host process that is
  // there, so they are bounded by what the platform has.
  outbox_.push_back(message);
  (void)flush_outbox();
}

bool Channel::flush_outbox() {
  while (!outbox_.empty()) {
    const auto sent =
        send_message(socket_.get(), &outbox_.front(), sizeof(Message), -1, MSG_DONTWAIT);
    if (!sent && (sent.error() == EAGAIN || sent.error() == ENOBUFS)) return false;
    outbox_.pop_front();
  }
  return true;
}

bool Channel::flush() {
  const MutexLock lock(send_mutex_);
  return flush_outbox();
}

bool Channel::receive(bool wait) {
  Message message{};
  UniqueFd fd;
  const auto n =
      receive_message(socket_.get(), &message, sizeof message, fd, wait ? 0 : MSG_DONTWAIT);
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
  (void)flush();
  TRY(send_message(socket_.get(), &message, sizeof message, fd));
  while (!answers_.contains(message.seq)) {
    if (!receive(true)) return Err(EIO);
  }
  if (!events_.empty()) {
    const uint64_t one = 1;
    (void)!write(news_.get(), &one, sizeof one);
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
  text.copy(message.text, sizeof message.text - 1);
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
