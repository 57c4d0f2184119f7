// Making a zygote: the first stub process of a shard, parent of its pool.
#pragma once
#include "platform/base/unique_fd.h"
#include "platform/channel/window.h"
#include "platform/trap/layout.h"
#include "platform/trap/stub_filter.h"

namespace uks {

struct Zygote {
  HandOff way = HandOff::kListener;
  pid_t pid = 0;
  UniqueFd listener;      // kListener
  UniqueFd donations[2];  // kTracer: what is sent on 0, stubs receive; 1 is their end
  Window window;          // slot 0 is the zygote's own
  UniqueFd socket;        // between begin_zygote and finish_zygote
};

// Forks one, which makes itself ready beside the caller. Preconditions: the calling process is
// single-threaded, unprivileged, has no_new_privs and no filter of its own yet; the calling thread
// lives as long as the sandbox (PDEATHSIG counts from it).
// `filter`: stub_filter() for this layout and way.
Result<Zygote> begin_zygote(const StubLayout& layout, const bpf::Program& filter, HandOff way);
// Waits until it is ready, and takes its listener. With kTracer: it has to be traced by now.
// EBUSY: another listener exists in the filter chain; EINVAL: the kernel is older than 5.19.
Result<void> finish_zygote(Zygote& zygote);
// Kills and reaps one that is not to be used.
void abandon_zygote(Zygote& zygote);

}  // namespace uks
