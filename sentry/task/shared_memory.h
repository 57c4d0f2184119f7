// Shared anonymous memory: objects that belong to those who map them, and what they are charged.
#pragma once
#include "platform/base/unique_fd.h"
#include "sentry/task/page_quota.h"

namespace uks {

class Kernel;
class Task;

struct SharedMemory {
  UniqueFd fd;
  Ref<PageAccount> pages;  // for AddressSpace::hold()
};

// A sealed memfd of `length` bytes (whole pages), charged for all of them. ENOMEM: over the
// sandbox's quota even without what is no longer mapped. May drop the kernel lock.
Result<SharedMemory> make_shared_memory(Task& task, uint64_t length);

// Has every process let go what it no longer maps. Drops the kernel lock.
void let_all_go_unmapped(Kernel& kernel);

}  // namespace uks
