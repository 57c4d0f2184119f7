// What TCP and UDP share: creation, names, routes and options.
#include "sentry/net/inet/inet.h"

#include <linux/capability.h>
#include <linux/in6.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cstring>

#include "sentry/net/inet/tcp.h"
#include "sentry/net/inet/udp.h"
#include "sentry/task/task.h"

namespace uks {
namespace {

constexpr uint16_t kFirstUnprivileged = 1024;  // net.ipv4.ip_unprivileged_port_start

std::string int_bytes(int value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

}  // namespace

Result<Ref<Socket>> make_inet_socket(Task& task, int family, int type, int protocol) {
  Ref<InetSocket> socket;
  switch (type) {
    case SOCK_STREAM:
      if (protocol != 0 && protocol != IPPROTO_TCP) return Err(EPROTONOSUPPORT);
      socket = make_ref<TcpSocket>(family);
      break;
    case SOCK_DGRAM:
      // Pings (IPPROTO_ICMP) are for the groups of net.ipv4.ping_group_range: nobody.
      if (protocol == (family == AF_INET ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6}))
        return Err(EACCES);
      if (protocol != 0 && protocol != IPPROTO_UDP) return Err(EPROTONOSUPPORT);
      socket = make_ref<UdpSocket>(family);
      break;
    case SOCK_RAW:
      if (protocol == 0) return Err(EPROTONOSUPPORT);
      return Err(EPERM);
    default:
      return Err(ESOCKTNOSUPPORT);
  }
  socket->set_owner(task.creds().euid);
  return Ref<Socket>(std::move(socket));
}

InetSocket::~InetSocket() { unbind(); }

void InetSocket::unbind() {
  if (bound_) ports_.remove(local_.port, *this);
  bound_ = false;
}

Result<InetAddress> InetSocket::parse(const RawAddress& raw) const {
  if (family() == AF_INET6 && family_of(raw) == AF_INET && !v6_only_ &&
      raw.size() >= sizeof(sockaddr_in) && type() == SOCK_DGRAM) {
    return parse_inet_address(AF_INET,
                              raw);  // udpv6_sendmsg() and ip6_datagram_connect() take these
  }
  InetAddress address = TRY(parse_inet_address(family(), raw));
  if (family() == AF_INET6 && v6_only_ && address.is_v4()) return Err(ENETUNREACH);
  return address;
}

Result<void> InetSocket::bind(Task& task, const RawAddress& raw) {
  const InetAddress address = TRY(parse_inet_address(family(), raw));
  if (family() == AF_INET6 && v6_only_ && address.is_v4()) return Err(EINVAL);
  if (!address.is_any() && !address.is_loopback()) return Err(EADDRNOTAVAIL);
  if (address.port != 0 && address.port < kFirstUnprivileged &&
      !task.creds().has_cap(CAP_NET_BIND_SERVICE))
    return Err(EACCES);
  if (bound_) return Err(EINVAL);
  InetAddress wanted = address;
  if (wanted.port == 0) {
    wanted.port = ports_.find_free(*this, wanted);
    if (wanted.port == 0) return Err(EADDRINUSE);
  } else if (!ports_.available(*this, wanted)) {
    return Err(EADDRINUSE);
  }
  local_ = wanted;
  bound_ = true;
  port_chosen_ = address.port != 0;
  address_chosen_ = !address.is_any();
  ports_.add(local_.port, *this);
  return {};
}

Result<void> InetSocket::autobind() {
  if (bound_) return {};
  const uint16_t port = ports_.find_free(*this, local_);
  if (port == 0) return Err(EAGAIN);
  local_.port = port;
  bound_ = true;
  ports_.add(port, *this);
  return {};
}

bool InetSocket::covers(const InetAddress& to) const {
  if (local_.same_ip(to)) return true;
  if (!local_.is_any()) return false;
  if (local_.is_v4()) return to.is_v4();
  return !to.is_v4() || !v6_only_;
}

Result<void> InetSocket::route(InetAddress& to, InetAddress& source) const {
  if (to.is_any()) to = InetAddress::loopback(to.is_v4()).with_port(to.port);
  if (to.is_broadcast() && !broadcast_) return Err(EACCES);
  if (!to.is_loopback()) return Err(ENETUNREACH);
  source = local_.is_any() ? InetAddress::loopback(to.is_v4()).with_port(local_.port) : local_;
  // From a socket bound to one family's loopback there is no way to the other's.
  if (source.is_v4() != to.is_v4()) return Err(ENETUNREACH);
  return {};
}

bool InetSocket::is_stored_option(int level, int option) const {
  if (level == IPPROTO_IP) {
    switch (option) {
      case IP_TOS:
      case IP_TTL:
      case IP_PKTINFO:
      case IP_RECVERR:
      case IP_RECVTTL:
      case IP_RECVTOS:
      case IP_MTU_DISCOVER:
      case IP_FREEBIND:
      case IP_MULTICAST_TTL:
      case IP_MULTICAST_LOOP:
      case IP_MULTICAST_ALL:
      case IP_BIND_ADDRESS_NO_PORT:
      case IP_RECVORIGDSTADDR:
        return true;
      default:
        return false;
    }
  }
  if (level == IPPROTO_IPV6 && family() == AF_INET6) {
    switch (option) {
      case IPV6_UNICAST_HOPS:
      case IPV6_MULTICAST_HOPS:
      case IPV6_MULTICAST_LOOP:
      case IPV6_RECVPKTINFO:
      case IPV6_RECVERR:
      case IPV6_RECVHOPLIMIT:
      case IPV6_RECVTCLASS:
      case IPV6_TCLASS:
      case IPV6_MTU_DISCOVER:
      case IPV6_DONTFRAG:
      case IPV6_ADDR_PREFERENCES:
        return true;
      default:
        return false;
    }
  }
  return Socket::is_stored_option(level, option);
}

Result<void> InetSocket::set_option(Task& task, int level, int option, std::string_view value) {
  if (level == IPPROTO_IPV6 && option == IPV6_V6ONLY && family() == AF_INET6) {
    if (value.size() < sizeof(int)) return Err(EINVAL);
    if (bound_) return Err(EINVAL);
    int v;
    memcpy(&v, value.data(), sizeof v);
    v6_only_ = v != 0;
    return {};
  }
  if ((level == IPPROTO_IP && (option == IP_ADD_MEMBERSHIP || option == IP_DROP_MEMBERSHIP)) ||
      (level == IPPROTO_IPV6 && family() == AF_INET6 &&
       (option == IPV6_ADD_MEMBERSHIP || option == IPV6_DROP_MEMBERSHIP))) {
    // lo does no multicast (ip_mc_find_dev()).
    if (type() == SOCK_STREAM) return Err(EPROTO);
    // Both structures begin with the group's address; struct ipv6_mreq has 20 bytes.
    if (value.size() < (level == IPPROTO_IP ? sizeof(ip_mreq) : sizeof(ipv6_mreq)))
      return Err(EINVAL);
    const auto first = static_cast<unsigned char>(value[0]);
    return Err((level == IPPROTO_IP ? (first & 0xf0) == 0xe0 : first == 0xff) ? ENODEV : EINVAL);
  }
  return Socket::set_option(task, level, option, value);
}

Result<std::string> InetSocket::get_option(Task& task, int level, int option) {
  if (level == IPPROTO_IPV6 && option == IPV6_V6ONLY && family() == AF_INET6)
    return int_bytes(v6_only_);
  // What these are until somebody sets them.
  if (!stored_.contains({level, option})) {
    if (level == IPPROTO_IP && option == IP_TTL) return int_bytes(64);
    if (level == IPPROTO_IP && (option == IP_MULTICAST_TTL || option == IP_MULTICAST_LOOP))
      return int_bytes(1);
    if (level == IPPROTO_IPV6 && option == IPV6_UNICAST_HOPS) return int_bytes(64);
    if (level == IPPROTO_IPV6 && (option == IPV6_MULTICAST_HOPS || option == IPV6_MULTICAST_LOOP))
      return int_bytes(1);
  }
  return Socket::get_option(task, level, option);
}

}  // namespace uks
