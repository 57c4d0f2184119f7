// The sentry's end of the line to the keeper (protocol.h).
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>

#include "platform/base/mutex.h"
#include "platform/base/result.h"
#include "platform/base/unique_fd.h"
#include "platform/keeper/protocol.h"

namespace uks::keeper {

class Channel {
 public:
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.get(); }

  // One-way messages. A keeper that is gone takes the sentry with it (PDEATHSIG): errors do not matter.
  void send(Op op, int32_t pid = 0, int32_t value = 0, std::string_view text = {});
  // Opens a file of /proc/`pid`: kOpenMem, or kOpenMaps with the file's name. Blocks for the keeper's
  // answer, which never waits for a guest. The host's errno.
  Result<UniqueFd> open(Op op, pid_t pid, std::string_view text = {});
  // A second, read-only descriptor of a memfd: what a guest may map that may only read the file.
  Result<UniqueFd> reopen_read_only(int memfd);
  // A message from the keeper that is no answer, if one is there. Never blocks.
  bool poll(Message& message);

 private:
  struct Answer {
    UniqueFd fd;
    int error = 0;
  };
  // Sends a request with a fresh number, perhaps with a descriptor, and waits for its answer.
  Result<UniqueFd> ask(Message& message, int fd) REQUIRES(receive_mutex_);
  // Receives one message. False: none (with `wait` false), or the keeper is gone.
  bool receive(bool wait) REQUIRES(receive_mutex_);

  UniqueFd socket_;
  Mutex receive_mutex_;
  std::map<uint32_t, Answer> answers_ GUARDED_BY(receive_mutex_);
  std::deque<Message> events_ GUARDED_BY(receive_mutex_);
  uint32_t next_seq_ GUARDED_BY(receive_mutex_) = 1;
};

}  // namespace uks::keeper
