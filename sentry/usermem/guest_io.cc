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

size_t GuestSource::in_buffer() const {
  if (begin_ < end_) return end_ - begin_ + ranges_[current_].iov_len - done_;
  size_t i = current_, done = done_;
  while (i < ranges_.size() && done == ranges_[i].iov_len) {
    i++;
    done = 0;
  }
  return i < ranges_.size() ? ranges_[i].iov_len - done : 0;
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
    const auto piece =
        task_.thread ? task_.thread->prefetched_piece(address(), part) : GuestThread::Piece{};
    if (!piece.bytes || (piece.length < part && !piece.fault)) {
      wanted_ = n;
      return Err(kFetchFirst);
    }
    faulted_ = piece.fault;
    if (begin_ == end_) begin_ = end_ = 0;
    staging_.reserve(end_ + piece.length, end_);
    load_bytes(staging_.data() + end_, piece.bytes, piece.length);
    end_ += piece.length;
    done_ += piece.length;
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
      at_once_(at_once) {
  if (at_once || !task.thread) return;
  probed_ = task.thread->probed();
  // After a wait it may be different, and Linux would look only now.
  probe_fault_ = task.thread->probe_fault() && !task.call().woken;
}

size_t GuestSink::remaining() const { return std::min<size_t>(left_, room_ - staged_); }

size_t GuestSink::writable() const {
  return probe_fault_ ? std::min<size_t>(remaining(), sure()) : remaining();
}

void GuestSink::skip_empty() {
  while (current_ < ranges_.size() && done_ == ranges_[current_].iov_len) {
    current_++;
    done_ = 0;
  }
}

void GuestSink::advance(size_t n) {
  done_ += n;
  left_ -= n;
  taken_ += n;
}

bool GuestSink::fits_slot(size_t n) const {
  if (at_once_ || !task_.thread || n > sure() || n > task_.thread->data_room()) return false;
  // An order for each buffer that it goes to.
  size_t orders = 0, at = done_;
  for (size_t i = current_; n > 0; i++, at = 0) {
    n -= std::min<size_t>(n, ranges_[i].iov_len - at);
    if (++orders > std::min<size_t>(task_.thread->order_room(), UKS_MAX_ORDERS - slot_parts_))
      return false;
  }
  return true;
}

std::span<char> GuestSink::prepare(size_t max) {
  skip_empty();
  max = std::min({max, remaining(), std::max<size_t>(writable(), 1)});
  if (max == 0) return {};
  faulted_ = writable() == 0;
  if (!faulted_ && way_ != Way::kStaged) {
    if (fits_slot(max)) {
      if (way_ == Way::kOpen) {
        way_ = Way::kSlot;
        orders_before_ = task_.thread->order_count();
        cursor_before_ = task_.thread->data_cursor();
      }
      return {task_.thread->reserve_data(max, &offset_), max};
    }
    spill();
  }
  max = std::min({max, remaining(), Staging::kKept});
  staging_.reserve(staged_ + max, staged_);
  return {staging_.data() + staged_, max};
}

void GuestSink::spill() {
  const bool was_in_slot = std::exchange(way_, Way::kStaged) == Way::kSlot;
  if (!was_in_slot || !task_.thread) return;
  size_t total = 0;
  for (size_t i = 0; i < slot_parts_; i++) total += slot_part_[i].length;
  staging_.reserve(total, 0);
  for (size_t i = 0; i < slot_parts_; i++) {
    const Part& part = slot_part_[i];
    load_bytes(staging_.data() + staged_, task_.thread->data() + part.offset, part.length);
    staged_ += part.length;
    parts_.push_back(part);
  }
  slot_parts_ = 0;
  spilled_ = staged_;
  task_.thread->drop_orders(orders_before_, cursor_before_);
  task_.thread->set_counts(false);
}

Result<void> GuestSink::commit(size_t n) {
  if (n == 0) return {};
  if (faulted_) return Err(EFAULT);
  // Whether the guest can take it turns out only when the file has given it away. What can be known
  // now is said now: nothing is ever mapped here (vm.mmap_min_addr, the end of user space).
  skip_empty();
  if (address() < kLowestAddress || address() >= kUserEnd) return Err(EFAULT);
  if (way_ == Way::kSlot) {
    if (!task_.thread) return Err(EFAULT);
    task_.thread->keep_data(offset_ + n);
    task_.thread->set_counts(true);
  }
  for (uint64_t offset = offset_; n > 0;) {
    skip_empty();
    const size_t part = std::min<size_t>(n, ranges_[current_].iov_len - done_);
    if (way_ == Way::kSlot) {
      uks_order order{};
      order.op = UKS_ORDER_COPY_OUT;
      order.addr = address();
      order.length = part;
      order.offset = offset;
      task_.thread->add_order(order);
      slot_part_[slot_parts_++] = {address(), part, offset};
      offset += part;
    } else {
      parts_.push_back({address(), part, 0});
      staged_ += part;
    }
    advance(part);
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
  const size_t lost = staged_ - arrived;
  lost_begin_ = std::max(arrived, std::exchange(spilled_, 0));
  lost_end_ = std::exchange(staged_, 0);
  parts_.clear();
  if (written) return n;
  n -= std::min(n, lost);
  if (n == 0 || task_.dead) return Err(written.error());
  return n;
}

}  // namespace uks
