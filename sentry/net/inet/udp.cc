// UDP, after net/ipv4/udp.c.
#include "sentry/net/inet/udp.h"

#include <algorithm>

namespace uks {
namespace {
constexpr size_t kMaxDatagram = 65507;  // 65535 less the IP and UDP headers
}

void UdpSocket::disconnect() {
  if (!connected_) return;
  connected_ = false;
  remote_ = InetAddress::any(family());
  if (!address_chosen_) local_ = InetAddress::any(family()).with_port(local_.port);
  if (!port_chosen_) {
    unbind();
    local_.port = 0;
  }
}

Result<void> UdpSocket::connect(Task&, const RawAddress& raw, bool, bool, WaitQueue**) {
  if (raw.size() < sizeof(sa_family_t)) return Err(EINVAL);
  if (family_of(raw) == AF_UNSPEC) {
    disconnect();
    return {};
  }
  InetAddress to = TRY(parse(raw)), source;
  // A second connect() starts from the address that bind() gave, not from the first one's.
  const InetAddress before = local_;
  if (!address_chosen_) local_ = InetAddress::any(family()).with_port(local_.port);
  if (auto r = route(to, source); !r) {
    local_ = before;
    return r;
  }
  if (auto r = autobind(); !r) {
    local_ = before;
    return r;
  }
  local_ = source.with_port(local_.port);
  remote_ = to;
  connected_ = true;
  return {};
}

UdpSocket* UdpSocket::find_receiver(const InetAddress& source, const InetAddress& to) const {
  const auto* candidates = ports_.at(to.port);
  if (!candidates) return nullptr;
  // As compute_score(): the more definite, the better; of equals the last one bound.
  UdpSocket* best = nullptr;
  int best_score = -1;
  for (InetSocket* candidate : *candidates) {
    auto* socket = static_cast<UdpSocket*>(candidate);
    if (!socket->covers(to)) continue;
    int score = 0;
    if (socket->connected_) {
      if (!(socket->remote_ == source)) continue;
      score += 8;
    }
    if (!socket->local_.is_any()) score += 4;
    if (socket->local_.is_v4() == to.is_v4()) score += 1;
    if (score >= best_score) {
      best = socket;
      best_score = score;
    }
  }
  return best;
}

Result<size_t> UdpSocket::send(Task&, SendRequest& request) {
  if (request.flags & MSG_OOB) return Err(EOPNOTSUPP);
  const size_t length = request.source.remaining();
  InetAddress to;
  if (!request.to.empty() && family_of(request.to) != AF_UNSPEC) {
    to = TRY(parse(request.to));
    if (to.port == 0) return Err(EINVAL);
  } else {
    if (!connected_) return Err(EDESTADDRREQ);
    to = remote_;
  }
  if (length > kMaxDatagram) return Err(EMSGSIZE);
  if (error_) return Err(take_error());
  if (shutdown_ & kNoSend) return Err(EPIPE);
  InetAddress source;
  TRY(route(to, source));
  TRY(autobind());
  source.port = local_.port;
  if (charged() >= send_limit()) {
    no_space_ = true;
    return Err(EAGAIN);
  }
  Packet packet = TRY(Packet::make(*this, length));
  while (packet.end < length) {
    const size_t n = TRY(request.source.read(packet.data.get() + packet.end, length - packet.end));
    if (n == 0) return Err(EFAULT);
    packet.end += n;
  }
  UdpSocket* receiver = find_receiver(source, to);
  if (!receiver) {
    // The ICMP "port unreachable" of a connected socket (__udp4_lib_err()).
    if (connected_) set_error(ECONNREFUSED);
    return length;
  }
  // A full receiver drops, as the network may.
  if (receiver->received_.charged() >= receiver->receive_buffer_) return length;
  packet.from = raw_inet_address(receiver->family(), source);
  packet.to = raw_inet_address(receiver->family(), to);
  receiver->received_.push(std::move(packet));
  receiver->queue.wake(EPOLLIN | EPOLLRDNORM | EPOLLRDBAND);
  return length;
}

Result<size_t> UdpSocket::recv(Task&, RecvRequest& request) {
  if (request.flags & MSG_ERRQUEUE) return Err(EAGAIN);
  if (error_) return Err(take_error());
  if (received_.empty()) {
    if ((shutdown_ & kNoReceive) && !(request.flags & MSG_DONTWAIT)) return 0;
    return Err(EAGAIN);
  }
  Packet& packet = received_.front();
  const size_t length = packet.size();
  const size_t part = std::min(length, request.sink.remaining());
  if (part > 0) {
    if (auto r = request.sink.write_whole(packet.bytes(), part); !r) {
      if (!(request.flags & MSG_PEEK)) received_.pop();  // lost, as there
      return Err(r.error());
    }
  }
  if (part < length) request.out_flags |= MSG_TRUNC;
  request.from = packet.from;
  request.to = packet.to;
  if (!(request.flags & MSG_PEEK)) received_.pop();
  return request.flags & MSG_TRUNC ? length : part;
}

Result<void> UdpSocket::shutdown(int how) {
  // inet_shutdown(): the bits are set even so.
  shutdown_ |= how == SHUT_RD ? kNoReceive : how == SHUT_WR ? kNoSend : kNoReceive | kNoSend;
  wake_all();
  if (!connected_) return Err(ENOTCONN);
  return {};
}

Result<RawAddress> UdpSocket::peer_name() const {
  if (!connected_) return Err(ENOTCONN);
  return raw_inet_address(family(), remote_);
}

uint32_t UdpSocket::poll_events() {
  uint32_t events = 0;
  if (error_) events |= EPOLLERR;
  if (shutdown_ & kNoReceive) events |= EPOLLRDHUP | EPOLLIN | EPOLLRDNORM;
  if (shutdown_ == (kNoReceive | kNoSend)) events |= EPOLLHUP;
  if (!received_.empty()) events |= EPOLLIN | EPOLLRDNORM;
  if (writable()) {
    events |= EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
  } else {
    no_space_ = true;
  }
  return events;
}

bool UdpSocket::wants_packet_info() const {
  const auto on = [this](int level, int option) {
    const auto it = stored_.find({level, option});
    return it != stored_.end() && it->second != 0;
  };
  return on(IPPROTO_IP, IP_PKTINFO) || on(IPPROTO_IPV6, IPV6_RECVPKTINFO);
}

void UdpSocket::release() {
  unbind();
  received_.clear();
}

}  // namespace uks
