// Reading and writing as system calls do it: waiting, partial results, limits. For read_write.cc,
// splice.cc and the socket calls.
#pragma once
#include <optional>

#include "sentry/task/task.h"
#include "sentry/vfs/file.h"

namespace uks {

// Linux's MAX_RW_COUNT: no call moves more at once.
inline constexpr uint64_t kMaxRwCount = 0x7ffff000;

// One range as a vector. EFAULT: it ends beyond user space.
Result<UserIovec> one_range(UserAddr buffer, uint64_t count);

// At the file's own position, or at `pos`. Blocks unless the file or `rwf` (RWF_NOWAIT) says not
// to.
Result<int64_t> do_read(Task& task, File& file, UserIovec ranges, std::optional<int64_t> pos,
                        int rwf = 0);
// What earlier runs of this call have written is in task.call().progress.
Result<int64_t> do_write(Task& task, File& file, UserIovec ranges, std::optional<int64_t> pos,
                         int rwf = 0);

// RLIMIT_FSIZE for a write of `count` bytes at `pos`: the bytes that are allowed. EFBIG, with
// SIGXFSZ sent.
Result<uint64_t> apply_file_size_limit(Task& task, File& file, int64_t pos, uint64_t count);

}  // namespace uks
