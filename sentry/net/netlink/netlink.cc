// NETLINK_ROUTE requests and their answers, after net/core/rtnetlink.c and net/ipv4/devinet.c.
#include "sentry/net/netlink/netlink.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "sentry/task/task.h"

namespace uks {
namespace {

constexpr size_t kMaxRequest = 16384;
constexpr size_t kMaxReplies = 64;      // unread packets; more are lost with ENOBUFS, as in Linux
constexpr int kLoopback = 1;            // lo's index
constexpr uint32_t kLowerUp = 1 << 16;  // IFF_LOWER_UP

// nl_pid of the sockets that are bound. Under the kernel lock.
std::set<uint32_t>& ports() {
  static auto* const taken = new std::set<uint32_t>;
  return *taken;
}

RawAddress address_of(uint32_t port, uint32_t groups) {
  sockaddr_nl nl{};
  nl.nl_family = AF_NETLINK;
  nl.nl_pid = port;
  nl.nl_groups = groups;
  return {reinterpret_cast<const char*>(&nl), sizeof nl};
}

Result<sockaddr_nl> parse(const RawAddress& address) {
  sockaddr_nl nl;
  if (address.size() < sizeof nl) return Err(EINVAL);
  memcpy(&nl, address.data(), sizeof nl);
  if (nl.nl_family != AF_NETLINK) return Err(EINVAL);
  return nl;
}

// Builds one message: header, fixed part, attributes, all padded to four bytes.
class Builder {
 public:
  Builder(uint16_t type, uint16_t flags, uint32_t seq, uint32_t port) {
    header_.nlmsg_type = type;
    header_.nlmsg_flags = flags;
    header_.nlmsg_seq = seq;
    header_.nlmsg_pid = port;
  }
  template <typename T>
  void fixed(const T& value) {
    body_.append(reinterpret_cast<const char*>(&value), sizeof value);
    pad();
  }
  void attribute(uint16_t type, std::string_view value) {
    const rtattr attr{.rta_len = static_cast<uint16_t>(RTA_LENGTH(value.size())), .rta_type = type};
    body_.append(reinterpret_cast<const char*>(&attr), sizeof attr);
    body_.append(value);
    pad();
  }
  void attribute(uint16_t type, uint32_t value) {
    attribute(type, std::string_view(reinterpret_cast<const char*>(&value), sizeof value));
  }
  std::string finish() {
    header_.nlmsg_len = static_cast<uint32_t>(sizeof header_ + body_.size());
    return std::string(reinterpret_cast<const char*>(&header_), sizeof header_) + body_;
  }

 private:
  void pad() { body_.resize(NLMSG_ALIGN(body_.size())); }

  nlmsghdr header_{};
  std::string body_;
};

std::string link_message(uint16_t flags, const nlmsghdr& request, uint32_t port) {
  Builder b(RTM_NEWLINK, flags, request.nlmsg_seq, port);
  ifinfomsg info{};
  info.ifi_type = ARPHRD_LOOPBACK;
  info.ifi_index = kLoopback;
  info.ifi_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING | kLowerUp;
  b.fixed(info);
  b.attribute(IFLA_IFNAME, std::string_view("lo", 3));
  b.attribute(IFLA_MTU, 65536u);
  b.attribute(IFLA_TXQLEN, 1000u);
  b.attribute(IFLA_ADDRESS, std::string_view("\0\0\0\0\0\0", 6));
  b.attribute(IFLA_BROADCAST, std::string_view("\0\0\0\0\0\0", 6));
  return b.finish();
}

std::string address_message(int family, const nlmsghdr& request, uint32_t port) {
  Builder b(RTM_NEWADDR, NLM_F_MULTI, request.nlmsg_seq, port);
  ifaddrmsg info{};
  info.ifa_family = static_cast<uint8_t>(family);
  info.ifa_prefixlen = family == AF_INET ? 8 : 128;
  info.ifa_flags = IFA_F_PERMANENT;
  info.ifa_scope = RT_SCOPE_HOST;
  info.ifa_index = kLoopback;
  b.fixed(info);
  if (family == AF_INET) {
    const std::string_view loopback("\x7f\0\0\1", 4);
    b.attribute(IFA_ADDRESS, loopback);
    b.attribute(IFA_LOCAL, loopback);
    b.attribute(IFA_LABEL, std::string_view("lo", 3));
  } else {
    b.attribute(IFA_ADDRESS, std::string_view("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16));
  }
  return b.finish();
}

std::string done_message(const nlmsghdr& request, uint32_t port) {
  Builder b(NLMSG_DONE, NLM_F_MULTI, request.nlmsg_seq, port);
  b.fixed(int32_t{0});
  return b.finish();
}

// `error` 0 is an acknowledgement.
std::string error_message(int error, const nlmsghdr& request, uint32_t port) {
  Builder b(NLMSG_ERROR, 0, request.nlmsg_seq, port);
  b.fixed(int32_t{-error});
  b.fixed(request);
  return b.finish();
}

// The answers to one request: packets of whole messages. `body` is what follows its header.
std::vector<std::string> answer(const nlmsghdr& request, std::string_view body, uint32_t port) {
  std::vector<std::string> replies;
  const bool dump = (request.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
  const int family = body.empty() ? AF_UNSPEC : static_cast<unsigned char>(body[0]);
  switch (request.nlmsg_type) {
    case RTM_GETLINK: {
      if (dump) {
        replies.push_back(link_message(NLM_F_MULTI, request, port));
        break;
      }
      ifinfomsg wanted{};
      memcpy(&wanted, body.data(), std::min(body.size(), sizeof wanted));
      if (wanted.ifi_index == kLoopback) return {link_message(0, request, port)};
      return {error_message(ENODEV, request, port)};
    }
    case RTM_GETADDR:
      if (!dump) return {error_message(EOPNOTSUPP, request, port)};
      for (const int f : {AF_INET, AF_INET6}) {
        if (family == AF_UNSPEC || family == f)
          replies.push_back(address_message(f, request, port));
      }
      break;
    case RTM_GETROUTE:  // the main table is empty: lo's routes are in the local one
    case RTM_GETNEIGH:
    case RTM_GETRULE:
      if (!dump) return {error_message(ENETUNREACH, request, port)};
      break;
    default:
      return {error_message(EPERM, request, port)};
  }
  replies.push_back(done_message(request, port));
  return replies;
}

}  // namespace

Result<Ref<Socket>> make_netlink_socket(int type, int protocol) {
  if (type != SOCK_RAW && type != SOCK_DGRAM) return Err(ESOCKTNOSUPPORT);
  if (protocol != NETLINK_ROUTE) return Err(EPROTONOSUPPORT);
  return Ref<Socket>(make_ref<NetlinkSocket>(type, protocol));
}

void NetlinkSocket::autobind(Task& task) {
  if (port_ != 0) return;
  // netlink_autobind(): the process's id, else something that is none.
  auto port = static_cast<uint32_t>(task.tgid());
  static uint32_t next = 0xfffff000;
  while (!ports().insert(port).second) port = next--;
  port_ = port;
}

Result<void> NetlinkSocket::bind(Task& task, const RawAddress& address) {
  const sockaddr_nl nl = TRY(parse(address));
  if (port_ != 0 && nl.nl_pid != port_) return Err(EINVAL);
  if (port_ == 0 && nl.nl_pid != 0) {
    if (!ports().insert(nl.nl_pid).second) return Err(EADDRINUSE);
    port_ = nl.nl_pid;
  }
  autobind(task);
  groups_ = nl.nl_groups;  // nothing here ever changes, so nothing is ever told
  return {};
}

Result<void> NetlinkSocket::connect(Task& task, const RawAddress& address, bool, bool,
                                    WaitQueue**) {
  const sockaddr_nl nl = TRY(parse(address));
  if (nl.nl_pid != 0) return Err(ECONNREFUSED);  // only the kernel can be talked to
  autobind(task);
  return {};
}

void NetlinkSocket::reply(const std::string& bytes) {
  auto made = Packet::make(*this, bytes.size());
  if (replies_.count() >= kMaxReplies || !made) {
    set_error(ENOBUFS);
    return;
  }
  Packet packet = std::move(*made);
  memcpy(packet.data.get(), bytes.data(), bytes.size());
  packet.end = bytes.size();
  packet.from = address_of(0, 0);
  replies_.push(std::move(packet));
}

Result<size_t> NetlinkSocket::send(Task& task, SendRequest& request) {
  if (request.flags & MSG_OOB) return Err(EOPNOTSUPP);
  if (!request.to.empty() && TRY(parse(request.to)).nl_pid != 0) return Err(ECONNREFUSED);
  const size_t length = request.source.remaining();
  if (length > kMaxRequest) return Err(EMSGSIZE);
  std::string bytes(length, '\0');
  for (size_t got = 0; got < length;) {
    const size_t n = TRY(request.source.read(bytes.data() + got, length - got));
    if (n == 0) return Err(EFAULT);
    got += n;
  }
  autobind(task);
  std::string_view left = bytes;
  while (left.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    memcpy(&header, left.data(), sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > left.size()) break;
    const std::string_view body = left.substr(sizeof header, header.nlmsg_len - sizeof header);
    // netlink_rcv_skb(): only requests, and no control messages.
    if ((header.nlmsg_flags & NLM_F_REQUEST) && header.nlmsg_type >= NLMSG_MIN_TYPE) {
      for (const std::string& bytes_of_reply : answer(header, body, port_)) reply(bytes_of_reply);
    } else if (header.nlmsg_flags & NLM_F_ACK) {
      reply(error_message(0, header, port_));
    }
    left.remove_prefix(std::min<size_t>(NLMSG_ALIGN(header.nlmsg_len), left.size()));
  }
  queue.wake(EPOLLIN | EPOLLRDNORM);
  return length;
}

Result<size_t> NetlinkSocket::recv(Task&, RecvRequest& request) {
  if (error_) return Err(take_error());
  if (replies_.empty()) return Err(EAGAIN);
  Packet& packet = replies_.front();
  const size_t length = packet.size();
  const size_t part = std::min(length, request.sink.remaining());
  if (part > 0) TRY(request.sink.write_whole(packet.bytes(), part));
  if (part < length) request.out_flags |= MSG_TRUNC;
  request.from = packet.from;
  if (!(request.flags & MSG_PEEK)) replies_.pop();
  return request.flags & MSG_TRUNC ? length : part;
}

RawAddress NetlinkSocket::name() const { return address_of(port_, groups_); }
Result<RawAddress> NetlinkSocket::peer_name() const { return address_of(0, 0); }

uint32_t NetlinkSocket::poll_events() {
  uint32_t events = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
  if (error_) events |= EPOLLERR;
  if (!replies_.empty()) events |= EPOLLIN | EPOLLRDNORM;
  return events;
}

bool NetlinkSocket::is_stored_option(int level, int option) const {
  if (level != SOL_NETLINK) return Socket::is_stored_option(level, option);
  switch (option) {
    case NETLINK_ADD_MEMBERSHIP:
    case NETLINK_DROP_MEMBERSHIP:
    case NETLINK_PKTINFO:
    case NETLINK_NO_ENOBUFS:
    case NETLINK_CAP_ACK:
    case NETLINK_EXT_ACK:
      return true;
    default:
      return false;
  }
}

void NetlinkSocket::release() {
  if (port_ != 0) ports().erase(port_);
  port_ = 0;
  replies_.clear();
}

}  // namespace uks
