#include "sentry/net/unix/garbage.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sentry/net/unix/unix_socket.h"

namespace uks {
namespace {

// Looking through queues may take one part in so many of the time: guests can make it take long.
constexpr MonotonicNs kShare = 20;
constexpr MonotonicNs kLongestPause = 2'000'000'000;

// The descriptions of AF_UNIX sockets that lie in queues, and how often.
std::unordered_map<SocketFile*, size_t>& queued() {
  static auto* const files = new std::unordered_map<SocketFile*, size_t>;
  return *files;
}
size_t collect_beyond = 64;  // as many in queues have grown out of those that stayed last time
MonotonicNs not_before = 0;
bool collecting = false;
GarbageTimer* timer = nullptr;

SocketFile* unix_socket_file(File& file) {
  if (file.kind() != FileKind::kSocket) return nullptr;
  auto& socket_file = static_cast<SocketFile&>(file);
  return socket_file.socket().family() == AF_UNIX ? &socket_file : nullptr;
}
UnixSocket& socket_of(SocketFile& file) { return static_cast<UnixSocket&>(file.socket()); }

// f(SocketFile&) for each AF_UNIX socket in the queues of `owner`.
template <typename F>
void each_socket_in(SocketFile& owner, F f) {
  socket_of(owner).each_queue([&](PacketQueue& queue) {
    queue.each_files([&](FilesInFlight& files) {
      for (const Ref<File>& file : files.files()) {
        if (SocketFile* socket = unix_socket_file(*file)) f(*socket);
      }
    });
  });
}

// Those that only queues refer to, less what can be reached from one that is referred to otherwise.
std::unordered_set<SocketFile*> find_garbage() {
  std::unordered_set<SocketFile*> suspects;
  for (const auto& [file, times] : queued()) {
    if (file->ref_count() == times) suspects.insert(file);
  }
  // In queues of suspects; who is in others as well is in one that may be read.
  std::unordered_map<SocketFile*, size_t> inside;
  for (SocketFile* owner : suspects) {
    each_socket_in(*owner, [&](SocketFile& file) { inside[&file]++; });
  }
  std::vector<SocketFile*> reached;
  for (SocketFile* file : suspects) {
    const auto it = inside.find(file);
    if (it == inside.end() || it->second < file->ref_count()) reached.push_back(file);
  }
  for (SocketFile* file : reached) suspects.erase(file);
  while (!reached.empty()) {
    SocketFile* owner = reached.back();
    reached.pop_back();
    each_socket_in(*owner, [&](SocketFile& file) {
      if (suspects.erase(&file) > 0) reached.push_back(&file);
    });
  }
  return suspects;
}

void collect() {
  if (collecting) return;
  collecting = true;
  const MonotonicNs start = monotonic_now();
  std::vector<FilesInFlight> doomed;
  for (SocketFile* owner : find_garbage()) {
    socket_of(*owner).each_queue([&](PacketQueue& queue) {
      queue.each_files([&](FilesInFlight& files) { doomed.push_back(std::move(files)); });
    });
  }
  doomed.clear();
  collecting = false;
  collect_beyond = 2 * queued().size() + 64;
  const MonotonicNs end = monotonic_now();
  not_before = end + std::min(kShare * (end - start), kLongestPause);
}

}  // namespace

void note_queued(File& file) {
  SocketFile* socket = unix_socket_file(file);
  if (!socket) return;
  queued()[socket]++;
}

void note_dequeued(File& file) {
  SocketFile* socket = unix_socket_file(file);
  if (!socket) return;
  const auto it = queued().find(socket);
  if (--it->second == 0) queued().erase(it);
}

bool is_in_a_queue(File& file) {
  if (queued().empty()) return false;
  SocketFile* socket = unix_socket_file(file);
  return socket && queued().contains(socket);
}

void collect_garbage_soon() {
  if (queued().empty()) return;
  if (!collecting && monotonic_now() >= not_before) return collect();
  // What one pass has made garbage another one finds.
  if (timer && !timer->armed()) timer->arm(not_before);
}

void collect_garbage_before_send(bool room) {
  if (room && queued().size() <= collect_beyond) return;
  collect_garbage_soon();
}

GarbageTimer::GarbageTimer(TimerQueue& timers) : Timer(timers) { timer = this; }

GarbageTimer::~GarbageTimer() {
  if (timer == this) timer = nullptr;
}

void GarbageTimer::on_expire() { collect_garbage_soon(); }

}  // namespace uks
