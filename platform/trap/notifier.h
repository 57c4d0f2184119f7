// How stubs' hand-offs arrive and are answered: by a seccomp listener, or by a tracer.
#pragma once
#include <sys/types.h>

#include <cstdint>

#include "platform/base/result.h"
#include "platform/channel/slot.h"

namespace uks {

struct Notification {
  uint64_t id;
  uint32_t tid;  // host thread id
  int32_t nr;    // getppid: a hand-off; clone: to be approved
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
  // Gives the stub process `fd` and answers with its number there, in one step: `number` if the
  // notifier can choose. `landing`: where the thread has its slot's landing, which prepare() has
  // filled; 0: its process has no window yet.
  virtual Result<void> reply_with_fd(uint64_t id, int fd, int number, uint64_t landing) = 0;
  virtual void prepare(uks_landing& place, uint64_t landing) {
    (void)place;
    (void)landing;
  }
  // Whether stubs' threads are tracees: waiting for children then reports dead threads as well.
  virtual bool traces() const { return false; }
  // Blocks until a child (or tracee) is dead, which is left to be reaped; 0: there are none any
  // more. For one thread.
  virtual pid_t wait_for_death();
  // Before that is reaped, and its number may be another's, and afterwards.
  virtual void forget(pid_t tid) { (void)tid; }
  virtual void reaped(pid_t tid) { (void)tid; }
};

}  // namespace uks
