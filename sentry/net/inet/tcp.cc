// TCP: connections and data, after net/ipv4/tcp.c and inet_connection_sock.c.
#include "sentry/net/inet/tcp.h"

#include <netinet/tcp.h>

#include <algorithm>

namespace uks {
namespace {
constexpr unsigned kMaxBacklog = 4096;  // net.core.somaxconn
constexpr size_t kSendBuffer = 256 * 1024, kReceiveBuffer = 131072;
}  // namespace

TcpSocket::TcpSocket(int family) : InetSocket(family, SOCK_STREAM, IPPROTO_TCP, tcp_ports()) {
  send_buffer_ = kSendBuffer;
  receive_buffer_ = kReceiveBuffer;
}

Result<void> TcpSocket::bind(Task& task, const RawAddress& address) {
  if (state_ != State::kClosed) return Err(EINVAL);
  return InetSocket::bind(task, address);
}

// ---- Listening

Result<void> TcpSocket::listen(Task&, int backlog) {
  if (state_ != State::kClosed && state_ != State::kListening) return Err(EINVAL);
  max_backlog_ = std::min(static_cast<unsigned>(backlog), kMaxBacklog);
  if (state_ == State::kListening) {
    admit_waiting();
    return {};
  }
  TRY(autobind());
  // inet_csk_listen_start() looks again: two sockets with SO_REUSEADDR may both be bound.
  if (!ports_.available(*this, local_)) return Err(EADDRINUSE);
  state_ = State::kListening;
  shutdown_ = 0;
  ports_.promote(local_.port, *this);
  return {};
}

TcpSocket* TcpSocket::find_listener(const InetAddress& to) const {
  const auto* candidates = ports_.at(to.port);
  if (!candidates) return nullptr;
  TcpSocket* best = nullptr;
  int best_score = -1;
  for (InetSocket* candidate : *candidates) {
    if (!candidate->listening()) break;  // listeners come first
    auto* socket = static_cast<TcpSocket*>(candidate);
    if (!socket->covers(to)) continue;
    int score = socket->local_.is_any() ? 0 : 4;
    if (socket->local_.is_v4() == to.is_v4()) score += 1;
    // Of equals (SO_REUSEPORT) the one with fewer connections waiting.
    if (score > best_score ||
        (score == best_score && socket->backlog_.size() < best->backlog_.size())) {
      best = socket;
      best_score = score;
    }
  }
  return best;
}

void TcpSocket::establish(TcpSocket& client) {
  auto child = make_ref<TcpSocket>(family());
  share_quota(*child);
  child->local_ = client.remote_;
  child->remote_ = client.local_;
  child->owner_ = owner_;
  child->reuse_address_ = reuse_address_;
  child->reuse_port_ = reuse_port_;
  child->v6_only_ = v6_only_;
  child->keep_alive_ = keep_alive_;
  child->linger_ = linger_;
  child->stored_ = stored_;
  child->send_buffer_ = send_buffer_;
  child->receive_buffer_ = receive_buffer_;
  child->receive_low_water_ = receive_low_water_;
  child->bound_ = true;
  ports_.add(child->local_.port, *child);
  child->state_ = client.state_ = State::kConnected;
  child->peer_ = Ref<TcpSocket>(&client);
  client.peer_ = child;
  client.shutdown_ = 0;
  backlog_.push_back(std::move(child));
  queue.wake(EPOLLIN | EPOLLRDNORM);
  client.queue.wake(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND);
}

void TcpSocket::admit_waiting() {
  while (!waiting_.empty() && !backlog_full()) {
    const Ref<TcpSocket> client = std::move(waiting_.front());
    waiting_.pop_front();
    client->knocks_at_ = nullptr;
    establish(*client);
  }
}

Result<Ref<Socket>> TcpSocket::accept(Task&, bool) {
  if (state_ != State::kListening) return Err(EINVAL);
  if (backlog_.empty()) return Err(EAGAIN);
  Ref<TcpSocket> accepted = std::move(backlog_.front());
  backlog_.pop_front();
  admit_waiting();
  return Ref<Socket>(std::move(accepted));
}

// inet_csk_listen_stop(): connections that nobody accepted are reset.
void TcpSocket::stop_listening() {
  state_ = State::kClosed;
  for (auto left = std::move(waiting_); !left.empty(); left.pop_front()) {
    left.front()->knocks_at_ = nullptr;
    left.front()->reset(ECONNREFUSED);
  }
  for (auto left = std::move(backlog_); !left.empty(); left.pop_front()) {
    const Ref<TcpSocket> child = left.front();
    if (child->peer_) child->peer_->reset(ECONNRESET);
    child->forget_peer();
    child->release();
  }
}

// ---- Connecting

// inet_stream_connect() for a connection under way or made.
Result<void> TcpSocket::connect_result() {
  switch (state_) {
    case State::kConnected:
      if (!connect_unreported_) return Err(EISCONN);
      connect_unreported_ = false;
      return {};
    case State::kReset:
    case State::kClosed: {
      const int error = take_error();
      const bool was_connecting = std::exchange(connect_unreported_, false);
      disconnect();
      return Err(error ? error : was_connecting ? ECONNABORTED : EISCONN);
    }
    default:
      return Err(EISCONN);
  }
}

Result<void> TcpSocket::connect(Task&, const RawAddress& raw, bool nonblocking, bool again,
                                WaitQueue** wait_on) {
  if (raw.size() < sizeof(sa_family_t)) return Err(EINVAL);
  if (family_of(raw) == AF_UNSPEC) {
    if (state_ == State::kListening) stop_listening();
    disconnect();
    return {};
  }
  if (state_ == State::kConnecting) {
    if (nonblocking) return Err(EALREADY);
    *wait_on = &queue;
    return Err(EAGAIN);
  }
  if (again || connect_unreported_ || state_ != State::kClosed) return connect_result();
  InetAddress to = TRY(parse(raw)), source;
  TRY(route(to, source));
  TRY(autobind());
  if (error_) error_ = 0;
  remote_ = to;
  local_ = source.with_port(local_.port);
  connect_unreported_ = true;
  TcpSocket* listener = find_listener(to);
  if (!listener) {
    reset(ECONNREFUSED);
  } else if (listener->backlog_full()) {
    // The SYN is dropped and comes again until there is room.
    state_ = State::kConnecting;
    knocks_at_ = listener;
    listener->waiting_.push_back(Ref<TcpSocket>(this));
  } else {
    listener->establish(*this);
  }
  // Not even loopback answers before connect() returns.
  if (nonblocking) return Err(EINPROGRESS);
  if (state_ == State::kConnecting) {
    *wait_on = &queue;
    return Err(EAGAIN);
  }
  return connect_result();
}

void TcpSocket::forget_peer() {
  if (peer_) peer_->peer_ = nullptr;
  peer_ = nullptr;
}

// tcp_disconnect().
void TcpSocket::disconnect() {
  const Ref<TcpSocket> self(this);
  if (knocks_at_) {
    std::erase(knocks_at_->waiting_, self);
    knocks_at_ = nullptr;
  }
  if (Ref<TcpSocket> peer = peer_) {
    forget_peer();
    peer->reset(ECONNRESET);
  }
  state_ = State::kClosed;
  shutdown_ = 0;
  fin_received_ = false;
  connect_unreported_ = false;
  error_ = 0;
  received_.clear();
  remote_ = InetAddress::any(family());
  if (!address_chosen_) local_ = InetAddress::any(family()).with_port(local_.port);
  if (!port_chosen_) {
    unbind();
    local_.port = 0;
  }
  wake_all();
}

// tcp_reset() and tcp_done().
void TcpSocket::reset(int error) {
  peer_ = nullptr;
  state_ = State::kReset;
  shutdown_ = kNoReceive | kNoSend;
  set_error(error);
}

void TcpSocket::finish_receiving() {
  fin_received_ = true;
  shutdown_ |= kNoReceive;
  wake_all();
}

Result<void> TcpSocket::shutdown(int how) {
  const int bits = how == SHUT_RD ? kNoReceive : how == SHUT_WR ? kNoSend : kNoReceive | kNoSend;
  switch (state_) {
    case State::kClosed:
    case State::kReset:
      shutdown_ |= bits;  // inet_shutdown() sets them even so
      wake_all();
      return Err(ENOTCONN);
    case State::kListening:
      if (bits & kNoReceive) {
        stop_listening();
        ports_.promote(local_.port, *this);
        wake_all();
      }
      return {};
    case State::kConnecting:
      disconnect();
      return {};
    case State::kConnected:
      break;
  }
  if (both_finished()) return Err(ENOTCONN);
  const bool fin = (bits & kNoSend) && !(shutdown_ & kNoSend);
  shutdown_ |= bits;
  if (fin && peer_) peer_->finish_receiving();
  wake_all();
  return {};
}

void TcpSocket::release() {
  if (dead_) return;
  dead_ = true;
  const Ref<TcpSocket> self(this);
  if (state_ == State::kListening) stop_listening();
  if (knocks_at_) {
    std::erase(knocks_at_->waiting_, self);
    knocks_at_ = nullptr;
  }
  if (Ref<TcpSocket> peer = peer_) {
    // tcp_close(): unread data, or a linger time of zero, make it a RST.
    const bool rude = !received_.empty() || (linger_.l_onoff && linger_.l_linger == 0);
    const bool had_fin = shutdown_ & kNoSend;
    forget_peer();
    if (rude) {
      peer->reset(ECONNRESET);
    } else if (!had_fin) {
      peer->finish_receiving();
    }
  }
  unbind();
  received_.clear();
}

// ---- Data

Result<size_t> TcpSocket::send(Task&, SendRequest& request) {
  if (request.flags & (MSG_OOB | MSG_FASTOPEN)) return Err(EOPNOTSUPP);
  if (state_ == State::kConnecting) return Err(EAGAIN);
  if (error_) return Err(take_error());
  if (state_ != State::kConnected || (shutdown_ & kNoSend)) return Err(EPIPE);
  const size_t length = request.source.remaining();
  if (length == 0) return 0;
  if (!peer_ || peer_->shutdown_ == (kNoReceive | kNoSend)) {
    // Nobody is there to take it: it is sent, and a RST comes back (EPIPE in CLOSE_WAIT).
    if (peer_) {
      const Ref<TcpSocket> peer = peer_;
      forget_peer();
      peer->reset(ECONNRESET);
    }
    reset(EPIPE);
    request.source.advance(length);
    return length;
  }
  const size_t limit = send_limit();
  if (charged() >= limit) {
    no_space_ = true;
    return Err(EAGAIN);
  }
  FilesInFlight none;
  const size_t n = TRY(peer_->received_.append(*this, request.source, limit - charged(), {}, none));
  if (request.source.remaining() > 0) no_space_ = true;
  peer_->queue.wake(EPOLLIN | EPOLLRDNORM);
  return n;
}

Result<size_t> TcpSocket::recv(Task&, RecvRequest& request) {
  if (request.flags & MSG_ERRQUEUE) return Err(EAGAIN);
  if (request.flags & MSG_OOB) return Err(EINVAL);
  if (state_ == State::kListening) return Err(ENOTCONN);
  if (state_ == State::kConnecting) return Err(EAGAIN);
  if (received_.empty()) {
    if (fin_received_) return 0;
    if (error_) return Err(take_error());
    if (shutdown_ & kNoReceive) return 0;
    return Err(state_ == State::kConnected ? EAGAIN : ENOTCONN);
  }
  if ((request.flags & MSG_TRUNC) && !(request.flags & MSG_PEEK)) {
    // Discarded without a copy, see tcp(7).
    const size_t n = std::min(request.sink.remaining(), received_.bytes());
    received_.drop(n);
    return n;
  }
  PacketQueue::StreamRead how;
  how.peek = request.flags & MSG_PEEK;
  return received_.take(request.sink, how);
}

Result<RawAddress> TcpSocket::peer_name() const {
  if (state_ != State::kConnected || both_finished()) return Err(ENOTCONN);
  return raw_inet_address(family(), remote_);
}

// tcp_poll().
uint32_t TcpSocket::poll_events() {
  if (state_ == State::kListening) return backlog_.empty() ? 0 : EPOLLIN | EPOLLRDNORM;
  uint32_t events = 0;
  if (shutdown_ == (kNoReceive | kNoSend) || state_ == State::kClosed) events |= EPOLLHUP;
  if (shutdown_ & kNoReceive) events |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP;
  if (state_ != State::kConnecting) {
    if (received_.bytes() >= receive_low_water()) events |= EPOLLIN | EPOLLRDNORM;
    if ((shutdown_ & kNoSend) || writable()) {
      events |= EPOLLOUT | EPOLLWRNORM;
    } else {
      no_space_ = true;
    }
  }
  if (error_) events |= EPOLLERR;
  return events;
}

// ---- Options

bool TcpSocket::is_stored_option(int level, int option) const {
  if (level != IPPROTO_TCP) return InetSocket::is_stored_option(level, option);
  switch (option) {
    case TCP_NODELAY:
    case TCP_MAXSEG:
    case TCP_CORK:
    case TCP_KEEPIDLE:
    case TCP_KEEPINTVL:
    case TCP_KEEPCNT:
    case TCP_SYNCNT:
    case TCP_LINGER2:
    case TCP_DEFER_ACCEPT:
    case TCP_WINDOW_CLAMP:
    case TCP_QUICKACK:
    case TCP_USER_TIMEOUT:
    case TCP_FASTOPEN:
    case TCP_NOTSENT_LOWAT:
      return true;
    default:
      return false;
  }
}

Result<void> TcpSocket::set_option(Task& task, int level, int option, std::string_view value) {
  if (level == IPPROTO_TCP) {
    // Loopback loses nothing, so every algorithm is the same one.
    if (option == TCP_CONGESTION) {
      return value.substr(0, value.find('\0')) == "cubic" ||
                     value.substr(0, value.find('\0')) == "reno"
                 ? Result<void>{}
                 : Err(ENOENT);
    }
    if (value.size() < sizeof(int)) return Err(EINVAL);
  }
  return InetSocket::set_option(task, level, option, value);
}

Result<std::string> TcpSocket::get_option(Task& task, int level, int option) {
  if (level == IPPROTO_TCP) {
    const auto number = [](int v) {
      return std::string(reinterpret_cast<const char*>(&v), sizeof v);
    };
    if (option == TCP_CONGESTION) return std::string("cubic\0\0\0\0\0\0\0\0\0\0\0", 16);
    if (option == TCP_INFO) {
      tcp_info info{};
      info.tcpi_state = state_ == State::kListening    ? TCP_LISTEN
                        : state_ == State::kConnecting ? TCP_SYN_SENT
                        : state_ == State::kConnected
                            ? (fin_received_ ? TCP_CLOSE_WAIT : TCP_ESTABLISHED)
                            : TCP_CLOSE;
      return std::string(reinterpret_cast<const char*>(&info), sizeof info);
    }
    if (!stored_.contains({level, option})) {  // the defaults of net.ipv4.tcp_*
      switch (option) {
        case TCP_MAXSEG:
          return number(state_ == State::kConnected ? 65483 : 536);
        case TCP_KEEPIDLE:
          return number(7200);
        case TCP_KEEPINTVL:
          return number(75);
        case TCP_KEEPCNT:
          return number(9);
        case TCP_SYNCNT:
          return number(6);
        case TCP_LINGER2:
          return number(60);
        case TCP_QUICKACK:
          return number(1);
        default:
          break;
      }
    }
  }
  return InetSocket::get_option(task, level, option);
}

}  // namespace uks
