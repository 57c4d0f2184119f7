// How stubs' hand-offs arrive and are answered: by a seccomp listener, or by a tracer.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "platform/base/result.h"

namespace uks {

struct Notification {
  uint64_t id;
  uint32_t tid;   // host thread id
  int32_t nr;     // getppid: a hand-off; clone: to be approved
  uint64_t args[6];
};

class Notifier {
 public:
  Notifier() = default;
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;
  virtual ~Notifier() = default;

  // Blocks for the next notification. EINTR; ENOENT: its thread died meanwhile (try again); other
  // errors: nothing can be received any more.
  virtual Result<Notification> receive() = 0;
  // Answers; the call returns `value` in the stub. ENOENT: the thread is gone.
  virtual Result<void> reply(uint64_t id, int64_t value) = 0;
  // Lets the kernel carry the call out as its registers say.
  virtual Result<void> approve(uint64_t id) = 0;
  // Gives the stub process `fd` and answers with its number there, in one step: `number` if the notifier
  // can choose.
  virtual Result<void> reply_with_fd(uint64_t id, int fd, int number) = 0;
  // Whether this one sees children die; then it calls `died` for each that may be reaped, from a thread
  // that holds no lock, and nobody else may wait for children.
  virtual bool report_deaths(std::function<void(pid_t)> died) {
    (void)died;
    return false;
  }
};

}  // namespace uks
