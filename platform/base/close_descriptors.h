// Closing all descriptors of a range, also where close_range(2) is missing: on Linux before 5.9,
// and under filters of containers that are older than it.
#pragma once

namespace uks {

// Closes first to last. Allocates nothing, and is for processes of one thread.
void close_descriptors(unsigned first, unsigned last = ~0U);

}  // namespace uks
