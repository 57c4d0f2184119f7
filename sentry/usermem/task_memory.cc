// Guest memory from a task's point of view: what came along in its slot, else /proc/PID/mem.
#include <algorithm>
#include <climits>
#include <cstring>

#include "platform/channel/shared_cell.h"
#include "sentry/task/task.h"

namespace uks {
namespace {

constexpr uint64_t kMaxRwCount = 0x7ffff000;  // MAX_RW_COUNT in Linux
constexpr uint64_t kLowestAddress = 0x10000;
constexpr uint64_t kUserEnd = uint64_t{1} << 47;
constexpr size_t kBounceSize = 128 * 1024;

// One buffer a sentry thread: data on its way between a file and /proc/PID/mem. Sinks and sources that
// use it do not outlive the handler's run, and a handler uses one at a time in each direction.
char* bounce_buffer(bool incoming) {
  thread_local std::unique_ptr<char[]> buffers[2];
  auto& buffer = buffers[incoming ? 1 : 0];
  if (!buffer) buffer.reset(new char[kBounceSize]);
  return buffer.get();
}

uint64_t total_length(const UserIovec& ranges) {
  uint64_t total = 0;
  for (const iovec& r : ranges) total += r.iov_len;
  return total;
}

class GuestSink final : public IoSink {
 public:
  GuestSink(Ref<GuestThread> thread, Ref<AddressSpace> mm, UserIovec ranges)
      : thread_(std::move(thread)), mm_(std::move(mm)), ranges_(std::move(ranges)), left_(total_length(ranges_)) {}

  size_t remaining() const override { return left_; }

  std::span<char> prepare(size_t max) override {
    skip_empty();
    max = std::min<size_t>(max, left_);
    if (max == 0) return {};
    const size_t in_range = std::min<size_t>(max, ranges_[current_].iov_len - done_);
    // Straight into the slot if all that is wanted of this range fits: the stub then copies it to the
    // guest without a further host call.
    if (thread_ && thread_->has_order_room() && in_range <= thread_->data_room()) {
      in_slot_ = true;
      char* to = thread_->reserve_data(in_range, &slot_offset_);
      return {to, in_range};
    }
    in_slot_ = false;
    return {bounce_buffer(true), std::min(max, kBounceSize)};
  }

  Result<void> commit(size_t n) override {
    if (n == 0) return {};
    // Orders fail only when the stub carries them out, too late for a pipe to keep its bytes. What can be
    // known now is said now: nothing is ever mapped here (vm.mmap_min_addr, the end of user space).
    skip_empty();
    if (address() < kLowestAddress || address() >= kUserEnd) return Err(EFAULT);
    if (in_slot_) {
      uks_order order{};
      order.op = UKS_ORDER_COPY_OUT;
      order.addr = address();
      order.length = n;
      order.offset = slot_offset_;
      thread_->add_order(order);
      advance(n);
      return {};
    }
    size_t at = 0;
    while (at < n) {
      skip_empty();
      const size_t part = std::min<size_t>(n - at, ranges_[current_].iov_len - done_);
      TRY(mm_->write(address(), bounce_buffer(true) + at, part));
      advance(part);
      at += part;
    }
    return {};
  }

 private:
  uint64_t address() const { return reinterpret_cast<uint64_t>(ranges_[current_].iov_base) + done_; }
  void skip_empty() {
    while (current_ < ranges_.size() && done_ == ranges_[current_].iov_len) {
      current_++;
      done_ = 0;
    }
  }
  void advance(size_t n) {
    done_ += n;
    left_ -= n;
  }

  Ref<GuestThread> thread_;
  Ref<AddressSpace> mm_;
  UserIovec ranges_;
  uint64_t left_;
  size_t current_ = 0, done_ = 0;
  bool in_slot_ = false;
  uint64_t slot_offset_ = 0;
};

class GuestSource final : public IoSource {
 public:
  GuestSource(Ref<GuestThread> thread, Ref<AddressSpace> mm, UserIovec ranges)
      : thread_(std::move(thread)), mm_(std::move(mm)), ranges_(std::move(ranges)), left_(total_length(ranges_)) {}

  size_t remaining() const override { return left_; }

  Result<size_t> read(void* dst, size_t n) override {
    n = std::min<size_t>(n, left_);
    size_t got = 0;
    while (got < n) {
      if (peeked_) {
        const size_t part = std::min(n - got, peeked_);
        memcpy(static_cast<char*>(dst) + got, bounce_buffer(false) + peek_at_, part);
        advance(part);
        got += part;
        continue;
      }
      skip_empty();
      const size_t part = std::min<size_t>(n - got, ranges_[current_].iov_len - done_);
      auto r = fetch(static_cast<char*>(dst) + got, part);
      if (!r) {
        if (got > 0) return got;
        return r;
      }
      move(*r);
      got += *r;
    }
    return got;
  }

  Result<std::span<const char>> peek(size_t max) override {
    if (left_ == 0 || max == 0) return std::span<const char>{};
    if (peeked_ == 0) {
      skip_empty();
      const size_t part = std::min<size_t>({kBounceSize, max, ranges_[current_].iov_len - done_});
      peeked_ = TRY(fetch(bounce_buffer(false), part));
      peek_at_ = 0;
    }
    return std::span<const char>{bounce_buffer(false) + peek_at_, std::min(max, peeked_)};
  }

  void advance(size_t n) override {
    n = std::min<size_t>(n, left_);
    const size_t seen = std::min(n, peeked_);
    peeked_ -= seen;
    peek_at_ += seen;
    while (n > 0) {  // what was not looked at is skipped (/dev/null)
      skip_empty();
      const size_t part = std::min<size_t>(n, ranges_[current_].iov_len - done_);
      move(part);
      n -= part;
    }
  }

 private:
  uint64_t address() const { return reinterpret_cast<uint64_t>(ranges_[current_].iov_base) + done_; }
  void skip_empty() {
    while (current_ < ranges_.size() && done_ == ranges_[current_].iov_len) {
      current_++;
      done_ = 0;
    }
  }
  void move(size_t n) {
    done_ += n;
    left_ -= n;
  }
  Result<size_t> fetch(char* to, size_t n) {
    if (const char* from = thread_ ? thread_->prefetched(address(), n) : nullptr) {
      load_bytes(to, from, n);
      return n;
    }
    return mm_->read_some(address(), to, n);
  }

  Ref<GuestThread> thread_;
  Ref<AddressSpace> mm_;
  UserIovec ranges_;
  uint64_t left_;
  size_t current_ = 0, done_ = 0;
  size_t peeked_ = 0, peek_at_ = 0;
};

}  // namespace

Result<void> Task::copy_in(UserAddr from, void* to, size_t n) {
  if (n == 0) return {};
  if (thread) {
    if (const char* bytes = thread->prefetched(from.value, n)) {
      load_bytes(to, bytes, n);
      return {};
    }
  }
  if (!mm) return Err(EFAULT);
  return mm->read(from.value, to, n);
}

Result<void> Task::copy_out(UserAddr to, const void* from, size_t n) {
  if (n == 0) return {};
  if (!to) return Err(EFAULT);
  if (to.value >= 0x7ffffffff000 || n > 0x7ffffffff000 - to.value) return Err(EFAULT);
  if (thread && thread->order_copy_out(to.value, from, n)) return {};
  if (!mm) return Err(EFAULT);
  return mm->write(to.value, from, n);
}

Result<std::string> Task::copy_in_string(UserAddr from, size_t max) {
  if (thread) {
    if (auto text = thread->prefetched_string(from.value)) {
      if (text->size() >= max) return Err(ENAMETOOLONG);
      return std::move(*text);
    }
  }
  if (!mm) return Err(EFAULT);
  std::string text;
  char piece[512];
  while (text.size() < max) {
    // Up to the end of a page: the next one may not exist.
    const uint64_t at = from.value + text.size();
    const size_t want = std::min({sizeof piece, max - text.size(), static_cast<size_t>(4096 - (at & 4095))});
    const size_t n = TRY(mm->read_some(at, piece, want));
    if (const void* end = memchr(piece, 0, n)) {
      text.append(piece, static_cast<size_t>(static_cast<const char*>(end) - piece));
      return text;
    }
    text.append(piece, n);
  }
  return Err(ENAMETOOLONG);
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

std::unique_ptr<IoSink> Task::make_sink(UserIovec ranges) {
  return std::make_unique<GuestSink>(thread, mm, std::move(ranges));
}

std::unique_ptr<IoSource> Task::make_source(UserIovec ranges) {
  return std::make_unique<GuestSource>(thread, mm, std::move(ranges));
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
