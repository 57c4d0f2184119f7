// Who is bound to which port, for one protocol. Under the kernel lock.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "platform/base/result.h"
#include "sentry/net/inet/address.h"

namespace uks {

class InetSocket;

class PortTable {
 public:
  // `listeners_exclusive`: SO_REUSEADDR does not let two sockets share a port if one listens (TCP).
  explicit PortTable(bool listeners_exclusive) : listeners_exclusive_(listeners_exclusive) {}

  // Whether `socket` may have `wanted`, beside those that have it.
  bool available(const InetSocket& socket, const InetAddress& wanted) const;
  void add(uint16_t port, InetSocket& socket) { bound_[port].push_back(&socket); }
  // Puts `socket`, whose state changed, at its place: those that listen are before those that do
  // not.
  void promote(uint16_t port, InetSocket& socket);
  void remove(uint16_t port, InetSocket& socket);
  // A port of net.ipv4.ip_local_port_range that nobody has. 0: none.
  uint16_t find_free(const InetSocket& socket, const InetAddress& wanted);
  const std::vector<InetSocket*>* at(uint16_t port) const;

  static constexpr uint16_t kFirstEphemeral = 32768, kLastEphemeral = 60999;

 private:
  bool listeners_exclusive_;
  std::unordered_map<uint16_t, std::vector<InetSocket*>> bound_;
  uint16_t next_ = 0;
};

PortTable& tcp_ports();
PortTable& udp_ports();

}  // namespace uks
