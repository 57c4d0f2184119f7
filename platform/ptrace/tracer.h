// The fallback for hosts without a seccomp listener to be had: the same stubs under the same
// filter, whose hand-offs stop for a tracer (SECCOMP_RET_TRACE) instead of a listener. Two stops
// for each system call, of some 10 us each, instead of a hand-off; everything else is as with the
// listener.
//
// ptrace(2) binds a tracee to one thread: the tracer's own. It makes a notification of each stop
// and carries out the answers of others. A descriptor reaches a stub by a socket that all stubs
// have as number 0: the tracer turns the hand-off into recvmsg(2), which no stub may make by
// itself, and lets one stub at a time receive.
#pragma once
#include <sys/types.h>
#include <sys/user.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "platform/base/unique_fd.h"
#include "platform/trap/notifier.h"
#include "platform/trap/zygote.h"

namespace uks {

class Tracer final : public Notifier {
 public:
  // Starts the tracing thread, which attaches to the zygote. SIGCHLD and SIGURG have to be blocked
  // in the calling thread, and thus in all later ones. EPERM: tracing is refused here (Yama, a
  // seccomp filter).
  static Result<std::unique_ptr<Tracer>> start(Zygote& zygote);

  Result<Notification> receive() override;
  Result<void> reply(uint64_t id, int64_t value) override;
  Result<void> approve(uint64_t id) override;
  Result<void> reply_with_fd(uint64_t id, int fd, int number, uint64_t landing) override;
  void prepare(uks_landing& place, uint64_t landing) override;
  bool traces() const override { return true; }
  pid_t wait_for_death() override;
  void forget(pid_t tid) override;
  void reaped(pid_t tid) override;

 private:
  struct Command {
    enum Kind { kReply, kApprove, kDonate, kDied, kReaped } kind;
    uint64_t id;
    int64_t value;
    UniqueFd fd;
    uint64_t landing;
  };
  struct Stop {
    pid_t tid;
    int status;
  };
  Tracer() = default;
  void run(pid_t zygote, std::mutex& mutex, std::condition_variable& attached,
           std::optional<int>& error);
  // Takes note of all that have stopped, without letting any go on, and of one that is dead.
  void collect_stops();
  void report_death(pid_t tid);
  // True if something was there.
  bool serve_commands();
  void stopped(pid_t tid, int status);
  void carry_out(Command command);
  // The next descriptor that waits, if none is on its way.
  void donate_next();
  bool aim_at_donation(pid_t tid, user_regs_struct& registers, uint64_t landing);
  void finish_donation(pid_t tid);
  // What the hand-off returns to a tracee that has just received a descriptor, or has not
  // (-ENOSYS).
  int64_t donation_result(pid_t tid, const user_regs_struct& registers);
  Result<void> enqueue(Command command);

  pid_t thread_id_ = 0;
  UniqueFd sending_, receiving_;

  // Of the tracing thread alone.
  std::unordered_map<pid_t, uint64_t> waiting_;  // tracees stopped in a hand-off, and its number
  uint64_t serial_ = 0;
  std::deque<Command> donations_;
  pid_t receiver_ = 0;          // the tracee that a descriptor is on its way to
  bool lands_in_slot_ = false;  // that descriptor
  std::vector<Stop> stops_;
  pid_t dying_ = 0;  // told to the reaper, and not yet reaped

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Notification> notifications_;
  std::vector<Command> commands_;
  std::condition_variable death_;
  pid_t dead_ = 0;  // for the reaper
};

}  // namespace uks
