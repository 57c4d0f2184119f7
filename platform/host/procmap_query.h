// PROCMAP_QUERY (Linux 6.11): one mapping of a process, asked of its open /proc/PID/maps. Its
// declaration is here because the headers we build with may be older (include/uapi/linux/fs.h has
// it).
#pragma once
#include <sys/ioctl.h>

#include <cstdint>

namespace uks {

struct ProcmapQuery {
  uint64_t size;         // of this structure, in bytes
  uint64_t query_flags;  // 0: the mapping that holds `query_addr`, else ENOENT
  uint64_t query_addr;
  uint64_t start, end;
  uint64_t flags;
  uint64_t page_size;
  uint64_t offset;  // of `start` in the file, in bytes
  uint64_t inode;   // 0: no file
  uint32_t major, minor;
  uint32_t name_size, build_id_size;  // 0: neither is wanted
  uint64_t name_addr, build_id_addr;
};
static_assert(sizeof(ProcmapQuery) == 104, "as the kernel lays it out");

// In `flags`.
inline constexpr uint64_t kProcmapReadable = 1, kProcmapWritable = 2, kProcmapExecutable = 4,
                          kProcmapShared = 8;
inline constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);

}  // namespace uks
