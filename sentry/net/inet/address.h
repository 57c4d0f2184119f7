// Internet addresses: IPv4 ones as IPv4-mapped IPv6 ones, so that one code serves both families.
#pragma once
#include <netinet/in.h>

#include <array>
#include <compare>
#include <cstdint>

#include "platform/base/result.h"
#include "sentry/net/packet.h"

namespace uks {

struct InetAddress {
  std::array<uint8_t, 16> ip{};
  uint16_t port = 0;  // host byte order

  friend bool operator==(const InetAddress&, const InetAddress&) = default;

  static InetAddress any(int family);
  static InetAddress loopback(bool v4);
  bool is_v4() const;
  bool is_any() const;       // 0.0.0.0 or ::
  bool is_loopback() const;  // 127.0.0.0/8 or ::1
  bool is_multicast() const;
  bool is_broadcast() const;  // 255.255.255.255
  // The same address with another port.
  InetAddress with_port(uint16_t p) const {
    InetAddress a = *this;
    a.port = p;
    return a;
  }
  bool same_ip(const InetAddress& other) const { return ip == other.ip; }
};

// From a sockaddr for a socket of `family`. EINVAL: too short. EAFNOSUPPORT: of another family.
Result<InetAddress> parse_inet_address(int family, const RawAddress& raw);
// As getsockname() gives it for a socket of `family`.
RawAddress raw_inet_address(int family, const InetAddress& address);
// sa_family of what a guest gave; AF_UNSPEC if too short to have one.
sa_family_t family_of(const RawAddress& raw);

}  // namespace uks
