// After sk_setsockopt(), do_ip_setsockopt(), do_ipv6_setsockopt() and do_tcp_setsockopt() in the
// kernel.
#include "sentry/net/stored_options.h"

#include <asm/socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <climits>

namespace uks {
namespace {

struct Rule {
  int level;
  int option;
  int low;  // EINVAL outside; a bool is any value, kept as 0 or 1
  int high;
  bool is_bool = false;
  int also = INT_MIN;  // allowed besides: -1 for "as the system has it"
};

constexpr Rule kRules[] = {
    {SOL_SOCKET, SO_DONTROUTE, 0, 1, true},
    {SOL_SOCKET, SO_OOBINLINE, 0, 1, true},
    {SOL_SOCKET, SO_NO_CHECK, 0, 1, true},
    {SOL_SOCKET, SO_TIMESTAMP, 0, 1, true},
    {SOL_SOCKET, SO_TIMESTAMPNS, 0, 1, true},
    {SOL_SOCKET, SO_RXQ_OVFL, 0, 1, true},
    {SOL_SOCKET, SO_PASSSEC, 0, 1, true},
    {SOL_SOCKET, SO_SELECT_ERR_QUEUE, 0, 1, true},
    {SOL_SOCKET, SO_BUSY_POLL, 0, INT_MAX},
    {SOL_SOCKET, SO_BINDTOIFINDEX, 0, INT_MAX},
    {IPPROTO_IP, IP_TTL, 1, 255, false, -1},
    {IPPROTO_IP, IP_MULTICAST_TTL, 0, 255, false, -1},
    {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT, IP_PMTUDISC_OMIT},
    {IPPROTO_IP, IP_PKTINFO, 0, 1, true},
    {IPPROTO_IP, IP_RECVERR, 0, 1, true},
    {IPPROTO_IP, IP_RECVTTL, 0, 1, true},
    {IPPROTO_IP, IP_RECVTOS, 0, 1, true},
    {IPPROTO_IP, IP_FREEBIND, 0, 1, true},
    {IPPROTO_IP, IP_MULTICAST_LOOP, 0, 1, true},
    {IPPROTO_IP, IP_MULTICAST_ALL, 0, 1},
    {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 0, 1, true},
    {IPPROTO_IP, IP_RECVORIGDSTADDR, 0, 1, true},
    {IPPROTO_IPV6, IPV6_UNICAST_HOPS, 0, 255, false, -1},
    {IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 0, 255, false, -1},
    {IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0, 1},
    {IPPROTO_IPV6, IPV6_RECVPKTINFO, 0, 1, true},
    {IPPROTO_IPV6, IPV6_RECVERR, 0, 1, true},
    {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 0, 1, true},
    {IPPROTO_IPV6, IPV6_RECVTCLASS, 0, 1, true},
    {IPPROTO_IPV6, IPV6_TCLASS, 0, 255, false, -1},
    {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DONT, IPV6_PMTUDISC_OMIT},
    {IPPROTO_IPV6, IPV6_DONTFRAG, 0, 1, true},
    {IPPROTO_TCP, TCP_NODELAY, 0, 1, true},
    {IPPROTO_TCP, TCP_CORK, 0, 1, true},
    {IPPROTO_TCP, TCP_MAXSEG, 88, 32767, false, 0},  // TCP_MIN_MSS, MAX_TCP_WINDOW
    {IPPROTO_TCP, TCP_KEEPIDLE, 1, 32767},
    {IPPROTO_TCP, TCP_KEEPINTVL, 1, 32767},
    {IPPROTO_TCP, TCP_KEEPCNT, 1, 127},
    {IPPROTO_TCP, TCP_SYNCNT, 1, 127},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, 0, INT_MAX},
};

}  // namespace

Result<int> check_stored_option(int level, int option, int value, bool net_admin) {
  if (level == SOL_SOCKET && option == SO_ZEROCOPY) {
    if (value < 0 || value > 1) return Err(EINVAL);
    // Nothing would ever complete a MSG_ZEROCOPY.
    if (value) return Err(EOPNOTSUPP);
  }
  if (level == SOL_SOCKET && option == SO_PRIORITY && (value < 0 || value > 6) && !net_admin)
    return Err(EPERM);
  for (const Rule& rule : kRules) {
    if (rule.level != level || rule.option != option) continue;
    if (rule.is_bool) return value != 0;
    if ((value < rule.low || value > rule.high) && value != rule.also) return Err(EINVAL);
    return value;
  }
  return value;
}

}  // namespace uks
