// Memory calls that need the sentry: mappings of files and of shared memory. Private anonymous
// memory never comes here: the stub serves it itself.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "gen/syscalls.h"
#include "platform/platform.h"
#include "sentry/fs/proc/mapped_names.h"
#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/task/shared_memory.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/host_io.h"

namespace uks {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kPassedFlags =
    MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_STACK | MAP_POPULATE | MAP_32BIT;

constexpr int kCapIpcLock = 14;

// ENOMEM unless all of the range is mapped, as the host's table of mappings says. Drops the kernel
// lock: the table may be long, and the host waits for whoever changes mappings there.
Result<void> check_mapped(Task& task, uint64_t start, uint64_t length) {
  const uint64_t end = start + length;
  if (end < start) return Err(ENOMEM);
  if (length == 0) return {};
  const Ref<AddressSpace> mm = task.mm;
  mm->request_memory();  // with the lock; what follows only reads
  std::string maps;
  {
    Unlocked unlocked;
    maps = TRY(mm->maps());
  }
  if (task.dead) return Err(EINTR);
  const char* line = maps.c_str();
  HostMapping mapping;
  while (start < end && next_mapping(line, mapping) && mapping.start <= start)
    start = std::max(start, mapping.end);
  if (start < end) return Err(ENOMEM);
  return {};
}

// Bytes, as the host counts them for the stub process, less the stub's own region.
struct MemoryUse {
  uint64_t total;
  uint64_t data;  // private and writable; stacks included
};

// Drops the kernel lock.
Result<MemoryUse> memory_use(Task& task) {
  const Ref<AddressSpace> mm = task.mm;
  std::string statm;
  {
    Unlocked unlocked;
    statm = TRY(read_host_proc(*mm, "statm"));
  }
  std::array<uint64_t, 6> pages{};
  char* at = statm.data();
  for (uint64_t& n : pages) n = strtoull(at, &at, 10);
  constexpr uint64_t kOwnData = 0x1000 + uint64_t{UKS_SLOTS} * UKS_AREA_SIZE;
  constexpr uint64_t kOwn = UKS_STUB_TEXT_SIZE + UKS_WINDOW_SIZE + kOwnData;
  const uint64_t total = pages[0] * kPage, data = pages[5] * kPage;
  return MemoryUse{total - std::min(total, kOwn), data - std::min(data, kOwnData)};
}

// RLIMIT_AS, and RLIMIT_DATA for private writable memory. ENOMEM. Other threads may map at the same
// time: then they exceed it together.
Result<void> check_address_space(Task& task, uint64_t more, bool is_data) {
  const uint64_t limit = task.group().limits[RLIMIT_AS].rlim_cur;
  const uint64_t data_limit = is_data ? task.group().limits[RLIMIT_DATA].rlim_cur : RLIM64_INFINITY;
  if (limit == RLIM64_INFINITY && data_limit == RLIM64_INFINITY) return {};
  const MemoryUse use = TRY(memory_use(task));
  if (use.total + more > limit || use.data + more > data_limit) return Err(ENOMEM);
  return {};
}

// can_do_mlock() in mm/mlock.c, and the limit for `length` bytes; what was locked before is not
// counted.
Result<void> check_lock_limit(Task& task, uint64_t length) {
  const uint64_t limit = task.group().limits[RLIMIT_MEMLOCK].rlim_cur;
  if (limit == RLIM64_INFINITY || task.creds().has_cap(kCapIpcLock)) return {};
  if (limit == 0) return Err(EPERM);
  if (length > limit) return Err(ENOMEM);
  return {};
}

}  // namespace

Result<int64_t> sys_mmap(Task& task, UserAddr addr, uint64_t length, uint64_t prot, uint64_t flags,
                         int fd, uint64_t offset) {
  if (offset % kPage) return Err(EINVAL);
  if (length == 0) return Err(EINVAL);
  if (length > 0x7ffffffff000) return Err(ENOMEM);
  const uint64_t type = flags & MAP_TYPE;
  if (type != MAP_SHARED && type != MAP_PRIVATE && type != MAP_SHARED_VALIDATE) return Err(EINVAL);
  if (type == MAP_SHARED_VALIDATE &&
      (flags & ~(kPassedFlags | MAP_TYPE | MAP_ANONYMOUS | MAP_LOCKED | MAP_NONBLOCK))) {
    return Err(EOPNOTSUPP);
  }
  const bool shared = type != MAP_PRIVATE;
  const uint64_t base = task.mm->layout().base;
  if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) && addr.value < base + UKS_STUB_REGION &&
      addr.value + length > base) {
    return Err(ENOMEM);
  }
  uks_order order{};
  order.op = UKS_ORDER_MMAP;
  order.addr = addr.value;
  order.length = length;
  order.prot = static_cast<uint32_t>(prot);
  order.flags = static_cast<uint32_t>(flags & kPassedFlags) | (shared ? MAP_SHARED : MAP_PRIVATE);
  const bool is_data = !shared && (prot & PROT_WRITE) && !(flags & MAP_GROWSDOWN);
  TRY(check_address_space(task, length, is_data));
  MappableFd mappable;
  if (flags & MAP_ANONYMOUS) {
    mappable.anonymous = true;
  } else {
    const Ref<File> file = TRY(task.fds().get_io(fd));
    if (!file->readable()) return Err(EACCES);
    if (shared && (prot & PROT_WRITE) && !file->writable()) return Err(EACCES);
    if (offset + length < offset) return Err(EOVERFLOW);
    mappable = TRY(file->mappable_fd(task, static_cast<int>(prot), shared));
    if (!mappable.anonymous) note_mapped_file(task, *file, mappable.fd);
  }
  if (mappable.anonymous && !shared) {
    // Only here because of a limit, or for /dev/zero: the stub makes it otherwise.
    if (flags & MAP_HUGETLB) return Err(ENOMEM);
    order.flags |= MAP_ANONYMOUS;
  } else if (mappable.anonymous) {
    SharedMemory memory = TRY(make_shared_memory(task, (length + kPage - 1) & ~(kPage - 1)));
    if (task.dead || !task.mm) return Err(EINTR);
    task.donation = std::move(memory.fd);
    mappable.pages = std::move(memory.pages);
    order.offset = 0;
  } else {
    task.donation.reset(fcntl(mappable.fd, F_DUPFD_CLOEXEC, 10));
    if (!task.donation) return HostErr();
    order.offset = mappable.host_offset + offset;
  }
  if (shared) task.mm->has_shared_memory = true;
  if (!task.thread || !task.thread->add_order(order)) return Err(EFAULT);
  if (mappable.pages) {
    struct stat st;
    if (host_fstat(task.donation.get(), &st) != 0) return HostErr();
    task.mm->hold(std::move(mappable.pages), st.st_ino);
  }
  if (task.donation) task.thread->maps_donation = true;
  task.mmap_reply = true;
  return 0;
}

Result<int64_t> sys_msync(Task& task, UserAddr addr, uint64_t length, int flags) {
  // Shared file pages are the host's page cache: coherent at once; writing back early changes
  // nothing that a guest could see.
  if (addr.value % kPage || (flags & ~(MS_ASYNC | MS_INVALIDATE | MS_SYNC))) return Err(EINVAL);
  if ((flags & MS_ASYNC) && (flags & MS_SYNC)) return Err(EINVAL);
  TRY(check_mapped(task, addr.value, length));
  return 0;
}

Result<int64_t> sys_mincore(Task& task, UserAddr addr, uint64_t length, UserAddr vec) {
  if (addr.value % kPage) return Err(EINVAL);
  const uint64_t pages = (length + kPage - 1) / kPage;
  if (pages > (uint64_t{1} << 20)) return Err(ENOMEM);
  TRY(check_mapped(task, addr.value, pages * kPage));
  // Which pages are resident is the host's business: all count as present.
  const std::string present(pages, '\1');
  TRY(task.copy_out(vec, present.data(), present.size()));
  return 0;
}

// Locking is virtual: nothing of a guest is swapped differently for it. The range is whole pages.
Result<int64_t> sys_munlock(Task& task, UserAddr addr, uint64_t length) {
  const uint64_t in_page = addr.value % kPage;
  const uint64_t bytes = (length + in_page + kPage - 1) & ~(kPage - 1);
  TRY(check_mapped(task, addr.value - in_page, bytes));
  return 0;
}
Result<int64_t> sys_mlock(Task& task, UserAddr addr, uint64_t length) {
  const uint64_t in_page = addr.value % kPage;
  TRY(check_lock_limit(task, (length + in_page + kPage - 1) & ~(kPage - 1)));
  return sys_munlock(task, addr, length);
}
Result<int64_t> sys_mlock2(Task& task, UserAddr addr, uint64_t length, int flags) {
  if (flags & ~MLOCK_ONFAULT) return Err(EINVAL);
  return sys_mlock(task, addr, length);
}
Result<int64_t> sys_mlockall(Task& task, int flags) {
  if (flags == 0 || (flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) || flags == MCL_ONFAULT)
    return Err(EINVAL);
  const uint64_t limit = task.group().limits[RLIMIT_MEMLOCK].rlim_cur;
  const bool limited = limit != RLIM64_INFINITY && !task.creds().has_cap(kCapIpcLock);
  uint64_t all = 0;
  if (limited && limit > 0 && (flags & MCL_CURRENT)) all = TRY(memory_use(task)).total;
  TRY(check_lock_limit(task, all));
  return 0;
}
Result<int64_t> sys_munlockall(Task&) { return 0; }

}  // namespace uks
