// Where things lie in every guest address space: found out once, in the sentry, before the zygotes
// are made. They inherit the sentry's layout by fork.
#pragma once
#include <cstdint>
#include <vector>

#include "platform/base/result.h"
#include "platform/channel/slot.h"

namespace uks {

struct StubLayout {
  uint64_t base = 0;                 // of the stub's region, aligned to UKS_AREA_SIZE
  uint64_t vdso = 0;                 // the host's vDSO image, kept for guests; 0: none
  uint64_t stack_top = 0;            // guests' main stacks end at or below it
  uint64_t mmap_top = 0;             // native mmap hands out addresses below it
  std::vector<uks_keep_range> keep;  // what a zygote keeps mapped

  uks_stub_header header{};
};

// Reserves the stub's region in the calling process and reads /proc/self/maps. ENOMEM, ENOENT.
Result<StubLayout> find_layout();

// The stub's image, as linked.
struct StubImage {
  const char* data;
  uint64_t size;
};
StubImage stub_image();

}  // namespace uks
