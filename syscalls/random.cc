// getrandom.
#include <errno.h>
#include <sys/random.h>

#include <algorithm>
#include <array>

#include "gen/syscalls.h"
#include "sentry/task/task.h"

namespace uks {

Result<int64_t> sys_getrandom(Task& task, UserOut buf, uint64_t count, uint32_t flags) {
  if (flags & ~(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE)) return Err(EINVAL);
  if ((flags & GRND_RANDOM) && (flags & GRND_INSECURE)) return Err(EINVAL);
  // Linux looks for signals after each page; a shorter answer than asked for is allowed above 256
  // bytes.
  count = std::min<uint64_t>(count, 1 << 20);
  std::array<char, 4096> chunk;
  uint64_t done = 0;
  while (done < count) {
    const size_t n = std::min<uint64_t>(count - done, chunk.size());
    size_t have = 0;
    while (have < n) {
      const ssize_t r = getrandom(chunk.data() + have, n - have, 0);
      if (r < 0 && errno != EINTR) return HostErr();
      if (r > 0) have += static_cast<size_t>(r);
    }
    if (auto r = task.copy_out(buf + done, chunk.data(), n); !r) {
      if (done == 0) return Err(r.error());
      break;
    }
    done += n;
    if (done >= 256 && task.has_deliverable_signal()) break;
  }
  return static_cast<int64_t>(done);
}

}  // namespace uks
