#include "sentry/usermem/guest_io.h"

#include <algorithm>
#include <cstring>

#include "platform/channel/shared_cell.h"
#include "sentry/task/task.h"
#include "sentry/usermem/memory_access.h"

namespace uks {
namespace {

constexpr uint64_t kLowestAddress = 0x10000;
constexpr uint64_t kUserEnd = uint64_t{1} << 47;

uint64_t total_length(const UserIovec& ranges) {
  uint64_t total = 0;
  for (const iovec& r : ranges) total += r.iov_len;
  return total;
}

}  // namespace

void Staging::reserve(size_t n, size_t used) {
  if (n <= size_) return;
  thread_local std::unique_ptr<char[]> kept[2];
  auto& buffer = kept[incoming_ ? 1 : 0];
  if (n <= kKept) {
    if (!buffer) buffer = std::make_unique_for_overwrite<char[]>(kKept);
    data_ = buffer.get();
    size_ = kKept;
    return;
  }
  const size_t size = std::max(n, 2 * size_);
  auto bigger = std::make_unique_for_overwrite<char[]>(size);
  if (used > 0) memcpy(bigger.get(), data_, used);
  own_ = std::move(bigger);
  data_ = own_.get();
  size_ = size;
}

// ---- GuestSource

GuestSource::GuestSource(Task& task, UserIovec ranges)
    : task_(task), ranges_(std::move(ranges)), left_(total_length(ranges_)) {}

void GuestSource::skip_empty() {
  while (current_ < ranges_.size() && done_ == ranges_[current_].iov_len) {
    current_++;
    done_ = 0;
  }
}

Result<void> GuestSource::stage(size_t n) {
  n = std::min<size_t>(n, left_);
  while (end_ - begin_ < n) {
    if (faulted_) {
      if (end_ > begin_) return {};
      return Err(EFAULT);
    }
    skip_empty();
    const size_t part = std::min<size_t>(n - (end_ - begin_), ranges_[current_].iov_len - done_);
    const char* from = task_.thread ? task_.thread->prefetched(address(), part) : nullptr;
    if (!from) {
      wanted_ = n;
      return Err(kFetchFirst);
    }
    if (begin_ == end_) begin_ = end_ = 0;
    staging_.reserve(end_ + part, end_);
    load_bytes(staging_.data() + end_, from, part);
    end_ += part;
    done_ += part;
  }
  return {};
}

Result<size_t> GuestSource::read(void* dst, size_t n) {
  n = std::min<size_t>(n, left_);
  if (n == 0) return size_t{0};
  TRY(stage(n));
  n = std::min(n, end_ - begin_);
  memcpy(dst, staging_.data() + begin_, n);
  advance(n);
  return n;
}

Result<std::span<const char>> GuestSource::peek(size_t max) {
  max = std::min<size_t>({max, left_, Staging::kKept});
  if (max == 0) return std::span<const char>{};
  if (begin_ == end_) {
    skip_empty();
    TRY(stage(std::min<size_t>(max, faulted_ ? 1 : ranges_[current_].iov_len - done_)));
  }
  return std::span<const char>{staging_.data() + begin_, std::min(max, end_ - begin_)};
}

void GuestSource::advance(size_t n) {
  n = std::min<size_t>(n, left_);
  left_ -= n;
  const size_t staged = std::min(n, end_ - begin_);
  begin_ += staged;
  n -= staged;
  while (n > 0) {  // what was not looked at is skipped (/dev/null)
    skip_empty();
    const size_t part = std::min<size_t>(n, ranges_[current_].iov_len - done_);
    done_ += part;
    n -= part;
  }
}

Result<void> GuestSource::fetch(size_t ahead) {
  const size_t have = end_ - begin_;
  const size_t want = std::min<size_t>(std::max(wanted_, std::min(ahead, Staging::kKept)), left_);
  if (want <= have) return {};
  if (begin_ > 0) {
    memmove(staging_.data(), staging_.data() + begin_, have);
    begin_ = 0;
    end_ = have;
  }
  staging_.reserve(want, end_);
  const auto fetched = with_memory(task_, [&](MemoryAccess& memory) -> Result<void> {
    while (end_ < want) {
      skip_empty();
      const size_t part = std::min<size_t>(want - end_, ranges_[current_].iov_len - done_);
      const auto n = memory.read_some(UserAddr{address()}, staging_.data() + end_, part);
      if (!n) return Err(n.error());
      end_ += *n;
      done_ += *n;
    }
    return {};
  });
  if (fetched || task_.dead) return fetched;
  faulted_ = true;
  if (end_ == begin_) return fetched;
  return {};
}

// ---- GuestSink

GuestSink::GuestSink(Task& task, UserIovec ranges, size_t room, bool at_once)
    : task_(task),
      ranges_(std::move(ranges)),
      left_(total_length(ranges_)),
      room_(room),
      at_once_(at_once) {}

size_t GuestSink::remaining() const { return std::min<size_t>(left_, room_ - staged_); }

void GuestSink::skip_empty() {
  while (current_ < ranges_.size() && done_ == ranges_[current_].iov_len) {
    current_++;
    done_ = 0;
  }
}

void GuestSink::advance(size_t n) {
  done_ += n;
  left_ -= n;
}

std::span<char> GuestSink::prepare(size_t max) {
  skip_empty();
  max = std::min(max, remaining());
  if (max == 0) return {};
  // Straight into the slot if all that is wanted of this range fits: the stub then copies it to the
  // guest without a further host call.
  GuestThread* thread = at_once_ ? nullptr : task_.thread.get();
  const size_t in_range = std::min<size_t>(max, ranges_[current_].iov_len - done_);
  in_slot_ = thread && thread->has_order_room() && in_range <= thread->data_room();
  if (in_slot_) return {thread->reserve_data(in_range, &slot_offset_), in_range};
  max = std::min(max, Staging::kKept);
  staging_.reserve(staged_ + max, staged_);
  return {staging_.data() + staged_, max};
}

Result<void> GuestSink::commit(size_t n) {
  if (n == 0) return {};
  // Whether the guest can take it turns out only when the file has given it away. What can be known
  // now is said now: nothing is ever mapped here (vm.mmap_min_addr, the end of user space).
  skip_empty();
  if (address() < kLowestAddress || address() >= kUserEnd) return Err(EFAULT);
  if (in_slot_) {
    uks_order order{};
    order.op = UKS_ORDER_COPY_OUT;
    order.addr = address();
    order.length = n;
    order.offset = slot_offset_;
    if (task_.thread) task_.thread->add_order(order);
    advance(n);
    return {};
  }
  while (n > 0) {
    skip_empty();
    const size_t part = std::min<size_t>(n, ranges_[current_].iov_len - done_);
    parts_.push_back({address(), part});
    advance(part);
    staged_ += part;
    n -= part;
  }
  return {};
}

Result<size_t> GuestSink::deliver(size_t n) {
  if (staged_ == 0) return n;
  size_t arrived = 0;
  const auto written = with_memory(task_, [&](MemoryAccess& memory) -> Result<void> {
    for (const Part& part : parts_) {
      for (size_t at = 0; at < part.length;) {
        const size_t some = TRY(memory.write_some(UserAddr{part.addr + at},
                                                  staging_.data() + arrived, part.length - at));
        at += some;
        arrived += some;
      }
    }
    return {};
  });
  lost_begin_ = arrived;
  lost_end_ = std::exchange(staged_, 0);
  parts_.clear();
  if (written) return n;
  n -= std::min(n, lost_end_ - lost_begin_);
  if (n == 0 || task_.dead) return Err(written.error());
  return n;
}

}  // namespace uks
