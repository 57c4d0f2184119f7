// Port tables, after inet_csk_get_port() and udp_lib_get_port().
#include "sentry/net/inet/ports.h"

#include <algorithm>

#include "sentry/net/inet/inet.h"

namespace uks {
namespace {

// ipv6_rcv_saddr_equal(): whether one packet could be for both.
bool overlap(const InetSocket& a, const InetAddress& a_ip, const InetSocket& b,
             const InetAddress& b_ip) {
  const bool a_v4 = a_ip.is_v4(), b_v4 = b_ip.is_v4();
  if (a_v4 != b_v4) {
    // :: takes IPv4 as well, unless V6ONLY.
    const InetSocket& six = a_v4 ? b : a;
    const InetAddress& six_ip = a_v4 ? b_ip : a_ip;
    return six_ip.is_any() && !six.v6_only();
  }
  return a_ip.is_any() || b_ip.is_any() || a_ip.same_ip(b_ip);
}

}  // namespace

bool PortTable::available(const InetSocket& socket, const InetAddress& wanted) const {
  const auto* others = at(wanted.port);
  if (!others) return true;
  for (const InetSocket* other : *others) {
    if (other == &socket || !overlap(socket, wanted, *other, other->local())) continue;
    if (socket.reuse_port() && other->reuse_port() && socket.owner() == other->owner()) continue;
    if (socket.reuse_address() && other->reuse_address() &&
        !(listeners_exclusive_ && other->listening()))
      continue;
    return false;
  }
  return true;
}

void PortTable::remove(uint16_t port, InetSocket& socket) {
  const auto it = bound_.find(port);
  if (it == bound_.end()) return;
  std::erase(it->second, &socket);
  if (it->second.empty()) bound_.erase(it);
}

void PortTable::promote(uint16_t port, InetSocket& socket) {
  auto& list = bound_[port];
  std::erase(list, &socket);
  list.insert(socket.listening() ? list.begin() : list.end(), &socket);
}

uint16_t PortTable::find_free(const InetSocket&, const InetAddress&) {
  constexpr unsigned kCount = kLastEphemeral - kFirstEphemeral + 1;
  for (unsigned tries = 0; tries < kCount; tries++) {
    // A prime step: neighbours are not handed out one after the other.
    next_ = static_cast<uint16_t>((next_ + 7919u) % kCount);
    const auto port = static_cast<uint16_t>(kFirstEphemeral + next_);
    if (!bound_.contains(port)) return port;
  }
  return 0;
}

const std::vector<InetSocket*>* PortTable::at(uint16_t port) const {
  const auto it = bound_.find(port);
  return it == bound_.end() ? nullptr : &it->second;
}

PortTable& tcp_ports() {
  static auto* const table = new PortTable(true);
  return *table;
}

PortTable& udp_ports() {
  static auto* const table = new PortTable(false);
  return *table;
}

}  // namespace uks
