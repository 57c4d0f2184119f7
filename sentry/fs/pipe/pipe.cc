// The byte ring of pipes and fifos.
#include "sentry/fs/pipe/pipe.h"

#include <algorithm>
#include <bit>

namespace uks {
namespace {

// Capacity promised to all pipes together, for the soft limit. Under the kernel lock.
uint64_t total_capacity = 0;
// Bytes copied in one go: all of it is done under the kernel lock.
constexpr size_t kPiece = size_t{1} << 20;

}  // namespace

Pipe::Pipe(Ref<PageQuota> quota)
    : capacity_(total_capacity >= kSoftLimit ? kPageSize : kDefaultSize) {
  if (quota) account_ = make_ref<PageAccount>(std::move(quota));
  total_capacity += capacity_;
}

Pipe::~Pipe() { total_capacity -= capacity_; }

bool Pipe::grow(size_t needed, bool force) {
  if (needed <= ring_size_) return true;
  const size_t size = std::max(std::bit_ceil(needed), kPageSize);
  if (account_) {
    const uint64_t pages = PageQuota::pages_of(size);
    if (!force && pages - account_->pages() > account_->quota().available()) return false;
    account_->set(pages);
  }
  auto ring = std::make_unique_for_overwrite<char[]>(size);
  peek(ring.get(), used_);
  ring_ = std::move(ring);
  ring_size_ = size;
  head_ = 0;
  return true;
}

void Pipe::drop_ring() {
  ring_.reset();
  ring_size_ = 0;
  if (account_) account_->set(0);
}

size_t Pipe::peek(char* to, size_t n) const {
  n = std::min(n, used_);
  if (n == 0) return 0;
  const size_t first = std::min(n, ring_size_ - head_);
  memcpy(to, ring_.get() + head_, first);
  memcpy(to + first, ring_.get(), n - first);
  return n;
}

void Pipe::consume(size_t n) {
  const bool was_full = full();
  for (size_t left = n; left > 0 && !segments_.empty();) {
    Segment& front = segments_.front();
    const size_t part = std::min(left, front.length);
    front.length -= part;
    left -= part;
    if (front.length == 0) segments_.pop_front();
  }
  used_ -= n;
  head_ = used_ == 0 ? 0 : (head_ + n) & (ring_size_ - 1);
  if (used_ == 0 && ring_size_ > kDefaultSize) drop_ring();
  if (was_full && !full()) queue.wake(EPOLLOUT | EPOLLWRNORM);
}

void Pipe::push_segment(size_t n, bool packet) {
  if (segments_.empty()) {
    if (!packet) return;
    if (used_ > 0) segments_.push_back({used_, false});
  }
  if (!packet && !segments_.back().packet) {
    segments_.back().length += n;
  } else {
    segments_.push_back({n, packet});
  }
}

void Pipe::append(const char* from, size_t n, bool packet) {
  if (n == 0) return;
  push_segment(n, packet);
  (void)grow(used_ + n, true);  // write() has asked
  const size_t tail = (head_ + used_) & (ring_size_ - 1);
  const size_t first = std::min(n, ring_size_ - tail);
  memcpy(ring_.get() + tail, from, first);
  memcpy(ring_.get(), from + first, n - first);
  used_ += n;
  // At every write, not only when it was empty: edge-triggered epoll users rely on it
  // (pipe->poll_usage).
  queue.wake(EPOLLIN | EPOLLRDNORM);
}

void Pipe::retract(size_t n) {
  used_ -= n;
  while (n > 0 && !segments_.empty()) {
    Segment& back = segments_.back();
    const size_t part = std::min(n, back.length);
    back.length -= part;
    n -= part;
    if (back.length == 0) segments_.pop_back();
  }
}

void Pipe::prepend(const char* from, size_t n) {
  if (n == 0) return;
  (void)grow(used_ + n, true);  // they were here a moment ago
  head_ = (head_ - n) & (ring_size_ - 1);
  const size_t first = std::min(n, ring_size_ - head_);
  memcpy(ring_.get() + head_, from, first);
  memcpy(ring_.get(), from + first, n - first);
  used_ += n;
  if (!segments_.empty()) segments_.push_front({n, false});
  queue.wake(EPOLLIN | EPOLLRDNORM);
}

Result<size_t> Pipe::read(IoSink& sink) {
  if (sink.remaining() == 0) return size_t{0};
  if (used_ == 0) {
    if (writers_ == 0) return size_t{0};
    return Err(EAGAIN);
  }
  // Bytes leave the ring only once the reader has them, as far as can be known: what does not
  // arrive after all comes back by prepend().
  const bool packet = !segments_.empty() && segments_.front().packet;
  size_t limit = std::min(segments_.empty() ? used_ : segments_.front().length, kPiece);
  if (const size_t wanted = std::min(limit, sink.remaining()); sink.writable() < wanted) {
    // Whole pages (pipe buffers) or nothing.
    if (packet || sink.writable() < kPageSize) return Err(EFAULT);
    limit = sink.writable() / kPageSize * kPageSize;
  }
  size_t done = 0;
  while (done < limit && sink.remaining() > 0) {
    const size_t at = (head_ + done) & (ring_size_ - 1);
    const size_t run = std::min(limit - done, ring_size_ - at);
    auto n = sink.write(ring_.get() + at, run);
    if (!n) {
      if (done == 0) return Err(n.error());
      break;
    }
    if (*n == 0) break;
    done += *n;
  }
  consume(packet ? limit : done);
  return done;
}

Result<size_t> Pipe::write(IoSource& source, bool packets) {
  const size_t wanted = source.remaining();
  if (wanted == 0) return size_t{0};  // before anything else, as pipe_write()
  if (readers_ == 0) return Err(EPIPE);
  // A packet takes a page of its own, however short.
  if (packets && segments_.size() >= capacity_ / kPageSize) return Err(EAGAIN);
  if (free() == 0 || (wanted <= kPageSize && free() < wanted)) return Err(EAGAIN);
  size_t left = std::min({wanted, free(), kPiece});
  size_t done = 0;
  while (left > 0) {
    if (packets && segments_.size() >= capacity_ / kPageSize) break;
    auto bytes = source.peek(packets ? std::min(left, kPageSize) : left);
    if (!bytes) {
      if (bytes.error() == EFAULT) {
        // A page (pipe buffer) that cannot be filled is not sent.
        retract(done % kPageSize);
        done -= done % kPageSize;
      }
      if (done == 0) return Err(bytes.error());
      break;
    }
    const size_t n = std::min(bytes->size(), left);
    if (n == 0) break;
    if (!grow(used_ + n)) {
      if (done == 0) return Err(ENOMEM);  // as pipe_write() when there is no page
      break;
    }
    append(bytes->data(), n, packets);
    source.advance(n);
    done += n;
    left -= n;
  }
  return done;
}

Result<size_t> Pipe::set_capacity(uint64_t wanted, bool privileged) {
  if (wanted > (uint64_t{1} << 31)) return Err(EINVAL);
  const size_t size = std::bit_ceil(std::max<size_t>(wanted, kPageSize));
  if (size > capacity_ && !privileged &&
      (size > kMaxSize || total_capacity + size - capacity_ > kSoftLimit)) {
    return Err(EPERM);
  }
  // Nobody needs more in one sandbox, whatever virtual capability is held.
  if (size > (size_t{64} << 20)) return Err(EPERM);
  if (size < used_) return Err(EBUSY);
  const bool was_full = full();
  total_capacity += size;
  total_capacity -= capacity_;
  capacity_ = size;
  if (was_full && !full()) queue.wake(EPOLLOUT | EPOLLWRNORM);
  return size;
}

uint32_t Pipe::read_events() const {
  return (used_ > 0 ? EPOLLIN | EPOLLRDNORM : 0u) | (writers_ == 0 ? uint32_t{EPOLLHUP} : 0u);
}

uint32_t Pipe::write_events() const {
  return (!full() ? EPOLLOUT | EPOLLWRNORM : 0u) | (readers_ == 0 ? uint32_t{EPOLLERR} : 0u);
}

void Pipe::add_end(bool reads, bool writes) {
  if (reads) {
    readers_++;
    reader_opens_++;
  }
  if (writes) {
    writers_++;
    writer_opens_++;
  }
  open_queue.wake(EPOLLIN);
}

void Pipe::remove_end(bool reads, bool writes) {
  if (reads) readers_--;
  if (writes) writers_--;
  if (readers_ == 0 && writers_ == 0) {
    // The last end: what was in flight is gone, also for a fifo that is opened again.
    used_ = head_ = 0;
    segments_.clear();
    drop_ring();
    return;
  }
  uint32_t events = 0;
  if (writes && writers_ == 0) events |= EPOLLHUP | EPOLLIN | EPOLLRDNORM;
  if (reads && readers_ == 0) events |= EPOLLERR | EPOLLOUT | EPOLLWRNORM;
  if (events) queue.wake(events);
}

}  // namespace uks
