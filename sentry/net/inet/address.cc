// Internet addresses and their sockaddrs.
#include "sentry/net/inet/address.h"

#include <algorithm>
#include <cstring>

namespace uks {
namespace {

constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
// sin6_scope_id may be missing (SIN6_LEN_RFC2133).
constexpr size_t kShortSockaddr6 = 24;

InetAddress mapped(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  InetAddress address;
  std::ranges::copy(kMapped, address.ip.begin());
  const uint8_t v4[4] = {a, b, c, d};
  memcpy(&address.ip[12], v4, sizeof v4);
  return address;
}

}  // namespace

InetAddress InetAddress::any(int family) {
  return family == AF_INET ? mapped(0, 0, 0, 0) : InetAddress{};
}

InetAddress InetAddress::loopback(bool v4) {
  if (v4) return mapped(127, 0, 0, 1);
  InetAddress address;
  address.ip[15] = 1;
  return address;
}

bool InetAddress::is_v4() const { return std::equal(kMapped.begin(), kMapped.end(), ip.begin()); }

bool InetAddress::is_any() const { return same_ip(any(AF_INET)) || same_ip(any(AF_INET6)); }

bool InetAddress::is_loopback() const { return is_v4() ? ip[12] == 127 : same_ip(loopback(false)); }

bool InetAddress::is_multicast() const { return is_v4() ? (ip[12] & 0xf0) == 0xe0 : ip[0] == 0xff; }

bool InetAddress::is_broadcast() const { return same_ip(mapped(255, 255, 255, 255)); }

sa_family_t family_of(const RawAddress& raw) {
  sa_family_t family = AF_UNSPEC;
  if (raw.size() >= sizeof family) memcpy(&family, raw.data(), sizeof family);
  return family;
}

Result<InetAddress> parse_inet_address(int family, const RawAddress& raw) {
  if (raw.size() < sizeof(sa_family_t)) return Err(EINVAL);
  const sa_family_t given = family_of(raw);
  InetAddress address;
  if (family == AF_INET) {
    if (raw.size() < sizeof(sockaddr_in)) return Err(EINVAL);
    sockaddr_in sin;
    memcpy(&sin, raw.data(), sizeof sin);
    // inet_bind(): AF_UNSPEC with INADDR_ANY is taken as AF_INET.
    if (given != AF_INET && !(given == AF_UNSPEC && sin.sin_addr.s_addr == 0))
      return Err(EAFNOSUPPORT);
    address = InetAddress::any(AF_INET);
    memcpy(&address.ip[12], &sin.sin_addr, 4);
    address.port = ntohs(sin.sin_port);
    return address;
  }
  if (given == AF_INET6) {
    if (raw.size() < kShortSockaddr6) return Err(EINVAL);
    sockaddr_in6 sin6{};
    memcpy(&sin6, raw.data(), std::min(raw.size(), sizeof sin6));
    memcpy(address.ip.data(), &sin6.sin6_addr, 16);
    address.port = ntohs(sin6.sin6_port);
    return address;
  }
  return Err(EAFNOSUPPORT);
}

RawAddress raw_inet_address(int family, const InetAddress& address) {
  if (family == AF_INET) {
    sockaddr_in sin{};
    sin.sin_family = AF_INET;
    memcpy(&sin.sin_addr, &address.ip[12], 4);
    sin.sin_port = htons(address.port);
    return {reinterpret_cast<const char*>(&sin), sizeof sin};
  }
  sockaddr_in6 sin6{};
  sin6.sin6_family = AF_INET6;
  memcpy(&sin6.sin6_addr, address.ip.data(), 16);
  sin6.sin6_port = htons(address.port);
  return {reinterpret_cast<const char*>(&sin6), sizeof sin6};
}

}  // namespace uks
