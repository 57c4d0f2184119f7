// Closing descriptors whose close frees much: by a thread of its own, without the kernel lock.
#pragma once
#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks {

// Freeing the pages of a file takes the host half a second a GiB. Closes `fd` soon; until then
// `charge` (null is allowed) is held, so that what is not free yet stays counted. Under the kernel
// lock. Closes at once before start_closer().
void close_later(UniqueFd fd, Ref<RefCounted> charge);
// Waits until all that was given before is closed and its charges are gone, the kernel lock dropped
// meanwhile. False: there was nothing to wait for.
bool wait_for_closes();
// Makes the thread. To be called before the sentry's filter is installed. EAGAIN: the host refuses.
Result<void> start_closer();

}  // namespace uks
