// Making a zygote: the first stub process of a shard, parent of its pool.
#pragma once
#include "platform/base/unique_fd.h"
#include "platform/channel/window.h"
#include "platform/trap/layout.h"

namespace uks {

struct Zygote {
  pid_t pid = 0;
  UniqueFd listener;
  Window window;  // slot 0 is the zygote's own
};

// Forks one. Preconditions: the calling process is single-threaded, unprivileged, has no_new_privs and
// no filter of its own yet; the calling thread lives as long as the sandbox (PDEATHSIG counts from it).
// EBUSY: another listener exists in the filter chain; EINVAL: the kernel is older than 5.19.
Result<Zygote> make_zygote(const StubLayout& layout);

}  // namespace uks
