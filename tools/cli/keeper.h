// The keeper: watches over the processes of one sandbox, serves the sentry's requests, and leaves
// nothing behind.
#pragma once
#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "platform/keeper/protocol.h"
#include "tools/cli/guard.h"
#include "tools/cli/launch.h"
#include "tools/cli/signals.h"
#include "tools/cli/terminal.h"

namespace uks::cli {

struct KeeperOptions {
  int64_t timeout_ms = 0;  // 0: none
  bool quiet = false;
  bool summary = false;  // also if stderr is no terminal
};

class Keeper {
 public:
  Keeper(KeeperOptions options, Terminal& terminal, SignalState signals, Child sentry, Child gofer,
         UniqueFd socket, Guard guard);

  // Serves until the sandbox has ended, kills and reaps what is left of it, restores the terminal.
  // Returns uks's exit code.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  void serve_once();
  void read_messages();
  void handle(const keeper::Message& message, const UniqueFd& attached);
  void handle_kill(const keeper::Message& message);
  void answer(const keeper::Message& message, Result<UniqueFd> fd);
  void handle_stopped(int signo);
  void handle_signals();
  void check_deadlines();
  void child_ended();
  void check_guard();
  void send(keeper::Op op, int32_t value, uint32_t seq = 0, UniqueFd fd = {});
  void flush_outbox();
  void watch_socket();
  void finish(int code);
  void fail(const std::string& line);
  void tear_down();
  int wait_milliseconds() const;

  struct Outgoing {
    keeper::Message message;
    UniqueFd fd;
  };

  KeeperOptions options_;
  Terminal& terminal_;
  SignalState signals_;
  Child sentry_;
  Child gofer_;
  UniqueFd socket_;
  Guard guard_;
  UniqueFd epoll_;
  std::deque<Outgoing> outbox_;
  std::optional<int> exit_code_;
  std::optional<Clock::time_point> timeout_;   // --timeout, until it is over
  std::optional<Clock::time_point> deadline_;  // all is killed then
  bool socket_open_ = true;
  bool error_told_ = false;  // the sentry has said why it ends
  int messages_left_ = 1000;
};

}  // namespace uks::cli
