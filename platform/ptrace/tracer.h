// The fallback for hosts without a seccomp listener to be had: the same stubs under the same filter, whose
// hand-offs stop for a tracer (SECCOMP_RET_TRACE) instead of a listener. Two stops for each system call,
// of some 10 us each, instead of a hand-off; everything else is as with the listener.
//
// ptrace(2) binds a tracee to one thread: the tracer's own. It makes a notification of each stop and
// carries out the answers of others. A descriptor reaches a stub by a socket that all stubs have as number 0:
// the tracer turns the hand-off into recvmsg(2), which no stub may make by itself, and lets one stub at a
// time receive.
#pragma once
#include <sys/types.h>
#include <sys/user.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "platform/base/unique_fd.h"
#include "platform/trap/notifier.h"
#include "platform/trap/zygote.h"

namespace uks {

class Tracer final : public Notifier {
 public:
  // Starts the tracing thread, which attaches to the zygote. SIGCHLD and SIGURG have to be blocked in the
  // calling thread, and thus in all later ones. EPERM: tracing is refused here (Yama, a seccomp filter).
  static Result<std::unique_ptr<Tracer>> start(Zygote& zygote);

  Result<Notification> receive() override;
  Result<void> reply(uint64_t id, int64_t value) override;
  Result<void> approve(uint64_t id) override;
  Result<void> reply_with_fd(uint64_t id, int fd, int number) override;
  bool report_deaths(std::function<void(pid_t)> died) override;

 private:
  struct Command {
    enum Kind { kReply, kApprove, kDonate } kind;
    uint64_t id;
    int64_t value;
    UniqueFd fd;
  };
  Tracer() = default;
  void run(pid_t zygote, std::mutex& mutex, std::condition_variable& attached, std::optional<int>& error);
  // True if something was there.
  bool serve_stop();
  bool serve_commands();
  void stopped(pid_t tid, int status);
  void died(pid_t pid);
  void carry_out(Command command);
  // The next descriptor that waits, if none is on its way.
  void donate_next();
  bool aim_at_donation(pid_t tid, user_regs_struct& registers);
  void finish_donation(pid_t tid);
  // The number of the descriptor that a tracee has just received; EPROTO: it has destroyed the message.
  Result<int> received_number(pid_t tid, const user_regs_struct& registers);
  Result<void> enqueue(Command command);

  std::thread thread_;
  pid_t thread_id_ = 0;
  UniqueFd sending_, receiving_;

  // Of the tracing thread alone.
  std::unordered_map<pid_t, uint64_t> waiting_;  // tracees stopped in a hand-off, and its number
  uint64_t serial_ = 0;
  std::deque<Command> donations_;
  pid_t receiver_ = 0;  // the tracee that a descriptor is on its way to

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Notification> notifications_;
  std::vector<Command> commands_;
  std::function<void(pid_t)> on_death_;
};

}  // namespace uks
