// Guest memory from a task's point of view: what came along in its slot, else /proc/PID/mem.
#include <algorithm>
#include <climits>
#include <cstring>

#include "platform/channel/shared_cell.h"
#include "sentry/task/task.h"
#include "sentry/usermem/memory_access.h"

namespace uks {
namespace {

constexpr uint64_t kMaxRwCount = 0x7ffff000;  // MAX_RW_COUNT in Linux

}  // namespace

Result<void> Task::copy_in(UserAddr from, void* to, size_t n) {
  if (n == 0) return {};
  if (thread) {
    if (const char* bytes = thread->prefetched(from.value, n)) {
      load_bytes(to, bytes, n);
      return {};
    }
  }
  return with_memory(*this, [&](MemoryAccess& memory) { return memory.read(from, to, n); });
}

Result<void> Task::copy_out(UserAddr to, const void* from, size_t n) {
  if (n == 0) return {};
  if (!to) return Err(EFAULT);
  if (to.value >= 0x7ffffffff000 || n > 0x7ffffffff000 - to.value) return Err(EFAULT);
  const uint64_t stub = thread ? thread->mm().layout().base : 0;
  if (thread && to.value < stub + UKS_STUB_REGION && to.value + n > stub) return Err(EFAULT);
  if (thread && thread->order_copy_out(to.value, from, n)) return {};
  return write_now(to, from, n);
}

Result<void> Task::write_now(UserAddr to, const void* from, size_t n) {
  if (n == 0) return {};
  return with_memory(*this, [&](MemoryAccess& memory) { return memory.write(to, from, n); });
}

Result<std::string> Task::copy_in_string(UserAddr from, size_t max) {
  if (thread) {
    if (auto text = thread->prefetched_string(from.value)) {
      if (text->size() >= max) return Err(ENAMETOOLONG);
      return std::move(*text);
    }
  }
  return with_memory(*this, [&](MemoryAccess& memory) -> Result<std::string> {
    std::string text;
    char piece[512];
    while (text.size() < max) {
      // Up to the end of a page: the next one may not exist.
      const UserAddr at = from + text.size();
      const size_t want = std::min(
          {sizeof piece, max - text.size(), static_cast<size_t>(4096 - (at.value & 4095))});
      const size_t n = TRY(memory.read_some(at, piece, want));
      if (const void* end = memchr(piece, 0, n)) {
        text.append(piece, static_cast<size_t>(static_cast<const char*>(end) - piece));
        return text;
      }
      text.append(piece, n);
    }
    return Err(ENAMETOOLONG);
  });
}

Result<UserIovec> Task::copy_in_iovec(UserAddr iov, int count) {
  if (count < 0 || count > IOV_MAX) return Err(EINVAL);
  UserIovec ranges(static_cast<size_t>(count));
  if (count > 0) TRY(copy_in(iov, ranges.data(), ranges.size() * sizeof(iovec)));
  uint64_t total = 0;
  for (iovec& r : ranges) {
    if (r.iov_len > static_cast<uint64_t>(SSIZE_MAX)) return Err(EINVAL);
    if (r.iov_len > kMaxRwCount - total) r.iov_len = kMaxRwCount - total;
    total += r.iov_len;
  }
  return ranges;
}

Result<size_t> IoSink::write(const void* data, size_t n) {
  n = std::min(n, remaining());
  size_t done = 0;
  while (done < n) {
    const std::span<char> to = prepare(n - done);
    if (to.empty()) break;
    memcpy(to.data(), static_cast<const char*>(data) + done, to.size());
    if (auto r = commit(to.size()); !r) {
      if (done > 0) return done;
      return Err(r.error());
    }
    done += to.size();
  }
  return done;
}

Result<size_t> IoSink::write_zeros(size_t n) {
  static constexpr char kZeros[4096] = {};
  n = std::min(n, remaining());
  size_t done = 0;
  while (done < n) {
    auto r = write(kZeros, std::min(n - done, sizeof kZeros));
    if (!r) {
      if (done > 0) return done;
      return r;
    }
    done += *r;
  }
  return done;
}

}  // namespace uks
