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
  explicit Channel(UniqueFd socket);
  int fd() const { return socket_.get(); }
  // An eventfd: readable when poll() has something that fd() does not show, since it came in before
  // an answer.
  int news_fd() const { return news_.get(); }

  // One-way messages. Never blocks: what the socket does not take (the keeper is stopped, or busy)
  // waits here, in order, and goes out before the next message or answer. A keeper that is gone
  // takes the sentry with it (PDEATHSIG): errors do not matter.
  void send(Op op, int32_t pid = 0, int32_t value = 0, std::string_view text = {});
  // Opens a file of /proc/`pid`: kOpenMem, or kOpenMaps with the file's name. Blocks for the
  // keeper's answer, which never waits for a guest. The host's errno.
  Result<UniqueFd> open(Op op, pid_t pid, std::string_view text = {});
  // A second, read-only descriptor of a memfd: what a guest may map that may only read the file.
  Result<UniqueFd> reopen_read_only(int memfd);
  // A message from the keeper that is no answer, if one is there. Never blocks.
  bool poll(Message& message);
  // Whether messages wait for room, and a try at sending them: for the event thread, when the
  // socket has room.
  bool flush();

 private:
  struct Answer {
    UniqueFd fd;
    int error = 0;
  };
  // Sends a request with a fresh number, perhaps with a descriptor, and waits for its answer.
  Result<UniqueFd> ask(Message& message, int fd) REQUIRES(receive_mutex_);
  // Receives one message. False: none (with `wait` false), or the keeper is gone.
  bool receive(bool wait) REQUIRES(receive_mutex_);

  // Sends what waits. False: some of it still does.
  bool flush_outbox() REQUIRES(send_mutex_);

  UniqueFd socket_;
  UniqueFd news_;
  Mutex send_mutex_;  // after receive_mutex_
  std::deque<Message> outbox_ GUARDED_BY(send_mutex_);
  Mutex receive_mutex_;
  std::map<uint32_t, Answer> answers_ GUARDED_BY(receive_mutex_);
  std::deque<Message> events_ GUARDED_BY(receive_mutex_);
  uint32_t next_seq_ GUARDED_BY(receive_mutex_) = 1;
};

}  // namespace uks::keeper
