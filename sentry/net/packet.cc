// Receive queues of sockets and the descriptors that travel in them.
#include "sentry/net/packet.h"

#include <algorithm>
#include <cstring>

#include "sentry/net/socket.h"
#include "sentry/net/unix/garbage.h"

namespace uks {
namespace {

// Descriptors in flight in the whole sandbox. Linux bounds them by each user's RLIMIT_NOFILE
// (too_many_unix_fds()).
constexpr size_t kMaxInFlight = 16384;
size_t in_flight = 0;  // under the kernel lock

// A packet of a stream; larger writes make several.
constexpr size_t kStreamPacket = 65536;
// Small writes share packets of this size, which malloc keeps at hand.
constexpr size_t kSmallPacket = 1000;

// The last reference to a socket frees what is in its queue, other sockets among them. They are
// freed one after the other, not inside each other: a chain of them must not use up the stack.
void drop_files(std::vector<Ref<File>> files) {
  static bool draining = false;
  static std::vector<Ref<File>> doomed;
  for (Ref<File>& f : files) doomed.push_back(std::move(f));
  if (draining) return;
  draining = true;
  while (!doomed.empty()) {
    Ref<File> file = std::move(doomed.back());
    doomed.pop_back();
  }
  draining = false;
}

bool same(const ucred& a, const ucred& b) {
  return a.pid == b.pid && a.uid == b.uid && a.gid == b.gid;
}

}  // namespace

FilesInFlight::~FilesInFlight() {
  if (files_.empty()) return;
  set_queued(false);
  in_flight -= files_.size();
  drop_files(std::move(files_));
}

Result<FilesInFlight> FilesInFlight::make(std::vector<Ref<File>> files) {
  collect_garbage_before_send(in_flight + files.size() <= kMaxInFlight);
  if (in_flight + files.size() > kMaxInFlight) return Err(ETOOMANYREFS);
  FilesInFlight made;
  in_flight += files.size();
  made.files_ = std::move(files);
  return made;
}

void FilesInFlight::set_queued(bool queued) {
  if (queued_ == queued) return;
  queued_ = queued;
  for (const Ref<File>& file : files_) queued ? note_queued(*file) : note_dequeued(*file);
}

Result<Packet> Packet::make(Socket& sender, size_t capacity) {
  TRY(sender.check_memory(capacity + kOverhead));
  Packet p;
  p.data = std::make_unique_for_overwrite<char[]>(capacity);
  p.capacity = capacity;
  p.sender = Ref<Socket>(&sender);
  sender.charge(p.charge());
  return p;
}

Packet::~Packet() {
  if (sender) sender->uncharge(charge());
}

void PacketQueue::push(Packet packet) {
  bytes_ += packet.size();
  charged_ += packet.charge();
  packet.files.set_queued(true);
  packets_.push_back(std::move(packet));
}

void PacketQueue::pop() {
  Packet front = std::move(packets_.front());
  packets_.pop_front();
  bytes_ -= front.size();
  charged_ -= front.charge();
}

FilesInFlight PacketQueue::taken(Packet& packet) {
  FilesInFlight files = std::move(packet.files);
  files.set_queued(false);
  return files;
}

void PacketQueue::clear() {
  while (!packets_.empty()) pop();
}

Result<size_t> PacketQueue::append(Socket& sender, IoSource& source, size_t room,
                                   const ucred& creds, FilesInFlight& files) {
  size_t want = std::min(source.remaining(), room), done = 0;
  size_t added = 0;  // to the packet that was there
  while (done < want) {
    Packet* tail = packets_.empty() || !files.empty() ? nullptr : &packets_.back();
    const bool fits = tail && tail->end < tail->capacity && tail->sender.get() == &sender &&
                      tail->files.empty() && same(tail->creds, creds);
    if (fits) {
      const size_t size = std::min(want - done, tail->capacity - tail->end);
      auto n = source.read(tail->data.get() + tail->end, size);
      if (n && *n < size) n = Err(EFAULT);
      if (!n) return done > 0 ? Result<size_t>(done) : n;
      tail->end += size;
      bytes_ += size;
      done += size;
      added = done;
      continue;
    }
    const size_t size = std::min(want - done, kStreamPacket);
    auto made = Packet::make(sender, std::max(size, kSmallPacket));
    if (!made) return done > 0 ? Result<size_t>(done) : Err(made.error());
    Packet packet = std::move(*made);
    auto n = source.read(packet.data.get(), size);
    if (n && *n < size) n = Err(EFAULT);
    if (!n && n.error() == EFAULT && done > 0 && done == added) {
      tail = &packets_.back();
      tail->end -= added;
      bytes_ -= added;
      return n;
    }
    if (!n) return done > 0 ? Result<size_t>(done) : n;
    packet.end = size;
    packet.creds = creds;
    packet.files = std::move(files);
    done += size;
    push(std::move(packet));
  }
  return done;
}

Result<size_t> PacketQueue::take(IoSink& sink, StreamRead& how) {
  size_t done = 0, index = 0;
  size_t skip = how.peek_offset;
  while (sink.remaining() > 0 && index < packets_.size()) {
    Packet& p = packets_[index];
    if (skip >= p.size()) {
      skip -= p.size();
      index++;
      continue;
    }
    if (done > 0 && how.same_creds && !same(p.creds, how.creds)) break;
    // Whole packets, or what there is room for, or nothing.
    if (sink.writable() < std::min(p.size() - skip, sink.remaining())) {
      if (done > 0) break;
      return Err(EFAULT);
    }
    auto n = sink.write(p.bytes() + skip, p.size() - skip);
    if (!n) {
      if (done > 0) break;
      return n;
    }
    if (*n == 0) break;
    if (done == 0) how.creds = p.creds;
    taken_creds_ = p.creds;
    const bool whole = skip + *n == p.size();
    skip = 0;
    done += *n;
    const bool had_files = !p.files.empty();
    if (how.peek) {
      if (had_files) how.files = TRY(p.files.copy());
      index++;
    } else {
      if (had_files) how.files = taken(p);
      p.begin += *n;
      bytes_ -= *n;
      if (whole) pop();
    }
    if (had_files || !whole) break;
  }
  return done;
}

void PacketQueue::prepend(std::span<const char> bytes) {
  if (bytes.empty()) return;
  // Nobody's: it must not fail for want of room in a send buffer.
  Packet p;
  p.data = std::make_unique_for_overwrite<char[]>(bytes.size());
  memcpy(p.data.get(), bytes.data(), bytes.size());
  p.capacity = p.end = bytes.size();
  p.creds = taken_creds_;
  bytes_ += p.size();
  charged_ += p.charge();
  packets_.push_front(std::move(p));
}

void PacketQueue::drop(size_t n) {
  while (n > 0 && !packets_.empty()) {
    Packet& p = packets_.front();
    const size_t part = std::min(n, p.size());
    p.begin += part;
    bytes_ -= part;
    n -= part;
    if (p.size() == 0) pop();
  }
}

}  // namespace uks
