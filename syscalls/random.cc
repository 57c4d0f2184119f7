// getrandom.
#include <errno.h>
#include <sys/random.h>

#include <algorithm>
#include <array>

#include "gen/syscalls.h"
#include "sentry/task/task.h"
#include "sentry/usermem/guest_io.h"
#include "syscalls/file_io.h"

namespace uks {

Result<int64_t> sys_getrandom(Task& task, UserOut buf, uint64_t count, uint32_t flags) {
  if (flags & ~(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE)) return Err(EINVAL);
  if ((flags & GRND_RANDOM) && (flags & GRND_INSECURE)) return Err(EINVAL);
  // Linux looks for signals after each page; a shorter answer than asked for is allowed above 256
  // bytes.
  count = std::min<uint64_t>(count, 1 << 20);
  std::array<char, 4096> chunk;
  GuestSink sink(task, TRY(one_range(buf, count)));
  uint64_t done = 0, in_sink = 0;
  for (bool over = count == 0; !over;) {
    const size_t n = std::min<uint64_t>(count - done - in_sink, chunk.size());
    size_t have = 0;
    while (have < n) {
      const ssize_t r = getrandom(chunk.data() + have, n - have, 0);
      if (r < 0 && errno != EINTR) return HostErr();
      if (r > 0) have += static_cast<size_t>(r);
    }
    const auto given = sink.write(chunk.data(), n);
    in_sink += given.value_or(0);
    over = given.value_or(0) < n || done + in_sink == count ||
           (done + in_sink >= 256 && task.has_deliverable_signal());
    if (!over && sink.remaining() > 0) continue;
    const auto arrived = in_sink > 0 ? sink.deliver(in_sink) : given;
    done += arrived.value_or(0);
    if (done == 0) return Err(arrived.error());
    over = over || arrived.value_or(0) < in_sink;
    in_sink = 0;
  }
  return static_cast<int64_t>(done);
}

}  // namespace uks
