// One seccomp listener: receiving stubs' notifications and answering them.
#pragma once
#include <linux/seccomp.h>

#include <cstdint>

#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks {

struct Notification {
  uint64_t id;
  uint32_t tid;   // host thread id
  int32_t nr;     // getppid: a hand-off; clone: to be approved
  uint64_t args[6];
};

class Notifier {
 public:
  explicit Notifier(UniqueFd listener);
  int fd() const { return listener_.get(); }

  // Blocks for the next notification. EINTR; ENOENT: its thread died meanwhile (try again); other
  // errors: the listener is dead.
  Result<Notification> receive() const;
  // Answers; the call returns `value` in the stub. ENOENT: the thread is gone.
  Result<void> reply(uint64_t id, int64_t value) const;
  // Lets the kernel carry the call out as its registers say.
  Result<void> approve(uint64_t id) const;
  // Puts `fd` at UKS_FIXED_FD in the stub and answers with that number, in one step.
  Result<void> reply_with_fd(uint64_t id, int fd) const;

 private:
  UniqueFd listener_;
};

}  // namespace uks
