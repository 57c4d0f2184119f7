// Sockets that nobody can reach any more: only packets refer to them, in queues that only such
// sockets have (net/unix/garbage.c). All under the kernel lock.
#pragma once
#include <cstddef>

namespace uks {

class File;

// `file` has been put into, or taken out of, a queue. Anything but AF_UNIX sockets is ignored: it
// has no queue of its own.
void note_queued(File& file);
void note_dequeued(File& file);

// Frees the descriptors in the queues of unreachable sockets, with which the sockets go. May close
// files, whose owners hear of it: no reference to a socket without a Ref of its own across it.
void collect_garbage();
// The same, if it is worth its cost: a socket has been closed; descriptors are about to be sent.
void collect_garbage_after_close();
void collect_garbage_before_send();

}  // namespace uks
