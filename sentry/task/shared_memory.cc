// Shared anonymous memory, and who still maps what he was given.
#include "sentry/task/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <unordered_set>
#include <vector>

#include "platform/platform.h"
#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/task/task.h"

namespace uks {
namespace {

// munmap is the stub's own: the sentry learns of it only by asking the host.
void let_go_unmapped(const Ref<AddressSpace>& mm) {
  if (!mm || mm->gone || !mm->holds_any()) return;
  const auto stamp = mm->held_stamp();
  if (!stamp) return;
  std::unordered_set<uint64_t> mapped;
  {
    Unlocked unlocked;
    const auto maps = mm->maps();
    if (!maps) return;
    HostMapping mapping;
    for (const char* line = maps->c_str(); next_mapping(line, mapping);) {
      if (mapping.inode) mapped.insert(mapping.inode);
    }
  }
  mm->let_go(*stamp, mapped);
}

// A process whose end its parent has seen already may not be dead yet: the host's kernel takes its
// time over big mappings. On Linux what it held is free by then.
void wait_for_ending_holders(const Kernel& kernel) {
  constexpr int kPatience = 1000;  // ms
  for (int i = 0; i < kPatience && kernel.platform && kernel.platform->holders_are_ending(); i++) {
    Unlocked unlocked;
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

void let_all_go_unmapped(Kernel& kernel) {
  wait_for_ending_holders(kernel);
  std::vector<Ref<AddressSpace>> all;
  for (const auto& [pid, group] : kernel.groups()) {
    if (!group->threads.empty() && group->threads.front()->mm)
      all.push_back(group->threads.front()->mm);
  }
  for (const Ref<AddressSpace>& mm : all) let_go_unmapped(mm);
}

Result<SharedMemory> make_shared_memory(Task& task, uint64_t length) {
  Kernel& kernel = task.kernel();
  const uint64_t pages = PageQuota::pages_of(length);
  kernel.file_pages->make_room(pages);
  SharedMemory memory;
  memory.pages = make_ref<PageAccount>(kernel.file_pages);
  if (!memory.pages->grow(pages)) return Err(ENOMEM);
  memory.fd.reset(memfd_create("uks-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.fd) return HostErr();
  if (ftruncate(memory.fd.get(), static_cast<off_t>(length)) != 0) return HostErr();
  if (fcntl(memory.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return HostErr();
  return memory;
}

}  // namespace uks
