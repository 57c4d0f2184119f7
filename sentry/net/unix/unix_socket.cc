// AF_UNIX: names, connections and the end of sockets.
#include "sentry/net/unix/unix_socket.h"

#include <asm/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "sentry/net/unix/garbage.h"
#include "sentry/task/kernel.h"
#include "sentry/vfs/fs_context.h"
#include "sentry/vfs/ops.h"
#include "sentry/vfs/permissions.h"
#include "sentry/vfs/resolve.h"

namespace uks {
namespace {

constexpr size_t kPathOffset = offsetof(sockaddr_un, sun_path);
constexpr int kMaxBacklog = 4096;  // net.core.somaxconn

// Abstract names, by their whole address. Under the kernel lock.
std::map<RawAddress, UnixSocket*>& abstract_names() {
  static auto* const names = new std::map<RawAddress, UnixSocket*>;
  return *names;
}

RawAddress unnamed() {
  const sa_family_t family = AF_UNIX;
  return {reinterpret_cast<const char*>(&family), sizeof family};
}

// unix_validate_addr().
Result<void> validate(const RawAddress& address) {
  if (address.size() <= kPathOffset || address.size() > sizeof(sockaddr_un)) return Err(EINVAL);
  sa_family_t family;
  memcpy(&family, address.data(), sizeof family);
  if (family != AF_UNIX) return Err(EINVAL);
  return {};
}

bool is_abstract(const RawAddress& address) { return address[kPathOffset] == 0; }

std::string_view path_in(const RawAddress& address) {
  const std::string_view path = std::string_view(address).substr(kPathOffset);
  return path.substr(0, strnlen(path.data(), path.size()));
}

}  // namespace

Result<Ref<Socket>> make_unix_socket(Task&, int type, int protocol) {
  if (protocol != 0 && protocol != AF_UNIX) return Err(EPROTONOSUPPORT);
  // unix_create(): "Believe it or not BSD has AF_UNIX, SOCK_RAW though nothing uses it."
  if (type == SOCK_RAW) type = SOCK_DGRAM;
  if (type != SOCK_STREAM && type != SOCK_DGRAM && type != SOCK_SEQPACKET)
    return Err(ESOCKTNOSUPPORT);
  return Ref<Socket>(make_ref<UnixSocket>(type, 0));
}

void pair_unix_sockets(Task& task, UnixSocket& a, UnixSocket& b) {
  a.peer_ = Ref<UnixSocket>(&b);
  b.peer_ = Ref<UnixSocket>(&a);
  a.own_creds_ = b.own_creds_ = a.peer_creds_ = b.peer_creds_ = UnixSocket::creds_of(task);
  if (a.connection_based()) {
    a.state_ = b.state_ = UnixSocket::State::kConnected;
  } else {
    a.datagram_senders_.insert(&b);
    b.datagram_senders_.insert(&a);
  }
}

UnixSocket::~UnixSocket() = default;

UnixSocket::PeerCreds UnixSocket::creds_of(Task& task) {
  PeerCreds c;
  c.id = {task.tgid(), task.creds().euid, task.creds().egid};
  c.groups = task.creds().groups;
  return c;
}

// ---- Names

Result<void> UnixSocket::bind_abstract(RawAddress address) {
  auto& names = abstract_names();
  if (names.contains(address)) return Err(EADDRINUSE);
  names[address] = this;
  name_ = std::move(address);
  return {};
}

// unix_autobind(): an abstract name of five hexadecimal digits.
Result<void> UnixSocket::autobind() {
  static uint32_t next = 0;
  for (uint32_t tries = 0; tries <= 0xfffff; tries++) {
    RawAddress address = unnamed();
    address.push_back(0);
    address += fmt::format("{:05x}", next++ & 0xfffff);
    if (bind_abstract(std::move(address))) return {};
  }
  return Err(ENOSPC);
}

Result<void> UnixSocket::bind(Task& task, const RawAddress& address) {
  if (address == unnamed()) {
    if (!name_.empty()) return {};
    return autobind();
  }
  TRY(validate(address));
  if (is_abstract(address)) {
    if (!name_.empty()) return Err(EINVAL);
    return bind_abstract(address);
  }
  if (!name_.empty()) return Err(EINVAL);
  const std::string path(path_in(address));
  const uint32_t mode = 0777;
  Path place = TRY(make_socket_node(task, path, mode));
  // The walk may have let another thread bind the same socket.
  if (!name_.empty() || dead_) return Err(EINVAL);
  if (!place.inode()) return Err(ENOENT);
  place.inode()->special = Ref<RefCounted>(this);
  place_ = std::move(place);
  name_ = address.substr(0, kPathOffset + path.size());
  name_.push_back(0);
  return {};
}

Result<Ref<UnixSocket>> UnixSocket::find(Task& task, const RawAddress& address) {
  TRY(validate(address));
  Ref<UnixSocket> found;
  if (is_abstract(address)) {
    const auto it = abstract_names().find(address);
    if (it == abstract_names().end()) return Err(ECONNREFUSED);
    found = Ref<UnixSocket>(it->second);
  } else {
    const std::string path(path_in(address));
    const Path base = TRY(base_of(task, AT_FDCWD, path));
    const Path place = TRY(resolve(task, base, path, kFollowLast));
    TRY(check_place(task, place, kMayWrite));
    if (place.inode()->type() != S_IFSOCK || !place.inode()->special) return Err(ECONNREFUSED);
    found = ref_cast<UnixSocket>(place.inode()->special);
    if (found->dead()) return Err(ECONNREFUSED);
  }
  if (found->type() != type()) return Err(EPROTOTYPE);
  return found;
}

RawAddress UnixSocket::name() const { return name_.empty() ? unnamed() : name_; }

Result<RawAddress> UnixSocket::peer_name() const {
  if (!peer_) return Err(ENOTCONN);
  return peer_->name();
}

// ---- Connections

Result<void> UnixSocket::listen(Task& task, int backlog) {
  if (!connection_based()) return Err(EOPNOTSUPP);
  if (name_.empty()) return Err(EINVAL);
  if (state_ == State::kConnected) return Err(EINVAL);
  const unsigned wanted =
      std::min(static_cast<unsigned>(backlog), static_cast<unsigned>(kMaxBacklog));
  if (wanted > max_backlog_) room_.wake(EPOLLOUT);
  max_backlog_ = wanted;
  state_ = State::kListening;
  own_creds_ = creds_of(task);
  return {};
}

void UnixSocket::set_datagram_peer(Ref<UnixSocket> peer) {
  if (peer_) peer_->datagram_senders_.erase(this);
  peer_ = std::move(peer);
  if (peer_) peer_->datagram_senders_.insert(this);
}

Result<void> UnixSocket::connect_datagram(Task& task, const RawAddress& address) {
  sa_family_t family = 0;
  if (address.size() < sizeof family) return Err(EINVAL);
  memcpy(&family, address.data(), sizeof family);
  if (family == AF_UNSPEC) {
    set_datagram_peer(nullptr);
    wake_all();
    return {};
  }
  Ref<UnixSocket> other = TRY(find(task, address));
  if (other->peer_ && other->peer_.get() != this) return Err(EPERM);  // unix_may_send()
  set_datagram_peer(std::move(other));
  peer_creds_ = creds_of(task);
  wake_all();
  return {};
}

Result<void> UnixSocket::connect(Task& task, const RawAddress& address, bool nonblocking, bool,
                                 WaitQueue** wait_on) {
  if (!connection_based()) return connect_datagram(task, address);
  Ref<UnixSocket> listener = TRY(find(task, address));
  if (listener->state_ != State::kListening || (listener->shutdown_ & kNoReceive))
    return Err(ECONNREFUSED);
  if (listener->backlog_.size() > listener->max_backlog_) {
    if (nonblocking) return Err(EAGAIN);
    *wait_on = &listener->room_;
    return Err(EAGAIN);
  }
  if (state_ == State::kConnected) return Err(EISCONN);
  if (state_ == State::kListening) return Err(EINVAL);
  auto other = make_ref<UnixSocket>(type(), protocol());
  share_quota(*other);
  other->state_ = State::kConnected;
  other->peer_ = Ref<UnixSocket>(this);
  other->name_ = listener->name_;
  other->own_creds_ = listener->own_creds_;
  other->pass_credentials_ = listener->pass_credentials_;
  own_creds_ = creds_of(task);
  other->peer_creds_ = own_creds_;
  peer_creds_ = listener->own_creds_;
  peer_ = other;
  state_ = State::kConnected;
  listener->backlog_.push_back(std::move(other));
  listener->queue.wake(EPOLLIN | EPOLLRDNORM | EPOLLRDBAND);
  queue.wake(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND);
  return {};
}

Result<Ref<Socket>> UnixSocket::accept(Task&, bool nonblocking) {
  if (!connection_based()) return Err(EOPNOTSUPP);
  if (state_ != State::kListening) return Err(EINVAL);
  // After shutdown() nobody will come: EINVAL for those who would wait (unix_accept()).
  if (backlog_.empty()) return Err((shutdown_ & kNoReceive) && !nonblocking ? EINVAL : EAGAIN);
  Ref<UnixSocket> accepted = std::move(backlog_.front());
  backlog_.pop_front();
  room_.wake(EPOLLOUT);
  return Ref<Socket>(std::move(accepted));
}

Result<void> UnixSocket::shutdown(int how) {
  const int bits = how == SHUT_RD ? kNoReceive : how == SHUT_WR ? kNoSend : kNoReceive | kNoSend;
  shutdown_ |= bits;
  if (peer_ && connection_based()) {
    peer_->shutdown_ |= (bits & kNoReceive ? kNoSend : 0) | (bits & kNoSend ? kNoReceive : 0);
    peer_->wake_all();
  }
  if (state_ == State::kListening) room_.wake(EPOLLOUT);
  wake_all();
  return {};
}

// The peer is gone. `reset`: bytes of ours were never read.
void UnixSocket::hang_up(bool reset) {
  shutdown_ = kNoReceive | kNoSend;
  if (reset) error_ = ECONNRESET;
  wake_all();
}

void UnixSocket::release() {
  if (dead_) return;
  dead_ = true;
  const Ref<UnixSocket> self(this);
  const bool was_listening = state_ == State::kListening;
  state_ = State::kClosed;
  if (!name_.empty() && is_abstract(name_)) {
    auto& names = abstract_names();
    if (const auto it = names.find(name_); it != names.end() && it->second == this) names.erase(it);
  }
  if (place_ && place_.inode() && place_.inode()->special.get() == this)
    place_.inode()->special = nullptr;
  place_ = {};
  if (connection_based()) {
    if (peer_) peer_->hang_up(!received_.empty());
    peer_ = nullptr;
  } else {
    set_datagram_peer(nullptr);
    // Their next send finds out (ECONNREFUSED); writers waiting for room hear it now.
    for (UnixSocket* sender : std::set<UnixSocket*>(datagram_senders_)) {
      sender->queue.wake(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND);
      // unix_dgram_disconnected(): one whose peer was this socket and that is its peer in turn.
    }
  }
  room_.wake(EPOLLOUT);
  if (was_listening) {
    for (std::deque<Ref<UnixSocket>> left = std::move(backlog_); !left.empty(); left.pop_front()) {
      UnixSocket& never_accepted = *left.front();
      if (never_accepted.peer_) never_accepted.peer_->hang_up(true);
      never_accepted.peer_ = nullptr;
      never_accepted.release();
    }
  }
  received_.clear();
  collect_garbage_soon();
}

// ---- What is asked of them

uint32_t UnixSocket::poll_events() {
  uint32_t events = 0;
  if (error_) events |= EPOLLERR;
  if (shutdown_ == (kNoReceive | kNoSend)) events |= EPOLLHUP;
  if (shutdown_ & kNoReceive) events |= EPOLLRDHUP | EPOLLIN | EPOLLRDNORM;
  if (!received_.empty() || !backlog_.empty()) events |= EPOLLIN | EPOLLRDNORM;
  if (connection_based() && state_ == State::kClosed) events |= EPOLLHUP;
  bool room = writable();
  // unix_dgram_poll(): a full receiver that is not our mutual peer.
  if (room && !is_stream() && peer_ && peer_->peer_.get() != this && peer_->queue_full())
    room = false;
  if (room) {
    events |= EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
  } else {
    no_space_ = true;
  }
  return events;
}

size_t UnixSocket::readable_bytes() {
  if (received_.empty()) return 0;
  // unix_inq_len(): all of a stream's or of a seqpacket's, the first datagram's.
  return connection_based() ? received_.bytes() : received_.front().size();
}

Result<std::string> UnixSocket::peer_credentials_option(int option) {
  if (option == SO_PEERCRED) {
    return std::string(reinterpret_cast<const char*>(&peer_creds_.id), sizeof peer_creds_.id);
  }
  if (peer_creds_.id.uid == static_cast<uid_t>(-1)) return Err(ENODATA);
  const auto& groups = peer_creds_.groups;
  return std::string(reinterpret_cast<const char*>(groups.data()), groups.size() * sizeof(gid_t));
}

}  // namespace uks
