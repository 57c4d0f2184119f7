// Sockets that nobody can reach any more: only packets refer to them, in queues that only such
// sockets have (net/unix/garbage.c). All under the kernel lock.
#pragma once
#include "sentry/time/timer_queue.h"

namespace uks {

class File;

// `file` has been put into, or taken out of, a queue. Anything but AF_UNIX sockets is ignored: it
// has no queue of its own.
void note_queued(File& file);
void note_dequeued(File& file);

// A descriptor of `file` was closed, or the last of a socket: garbage may have come to be. It is
// collected at once, or, if that has taken long lately, in a while. May close files, whose owners
// hear of it: no reference to a socket without a Ref of its own across it.
void collect_garbage_soon();
// Whether that is worth asking for: the socket lies in a queue.
bool is_in_a_queue(File& file);
// Descriptors are about to be sent; `room`: whether there is any for them.
void collect_garbage_before_send(bool room);

// Where "in a while" is kept; one a kernel.
class GarbageTimer final : public Timer {
 public:
  explicit GarbageTimer(TimerQueue& timers);
  ~GarbageTimer() override;
  void on_expire() override;
};

}  // namespace uks
