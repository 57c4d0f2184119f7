// Internet sockets: what TCP and UDP share. The sandbox has one interface, lo (127.0.0.0/8 and
// ::1); everything else has no route.
#pragma once
#include "sentry/net/inet/address.h"
#include "sentry/net/inet/ports.h"
#include "sentry/net/socket.h"

namespace uks {

class InetSocket : public Socket {
 public:
  InetSocket(int family, int type, int protocol, PortTable& ports)
      : Socket(family, type, protocol),
        local_(InetAddress::any(family)),
        remote_(local_),
        ports_(ports) {}
  ~InetSocket() override;

  Result<void> bind(Task& task, const RawAddress& address) override;
  RawAddress name() const override { return raw_inet_address(family(), local_); }
  Result<void> set_option(Task& task, int level, int option, std::string_view value) override;
  Result<std::string> get_option(Task& task, int level, int option) override;

  const InetAddress& local() const { return local_; }
  const InetAddress& remote() const { return remote_; }
  bool reuse_address() const { return reuse_address_; }
  bool reuse_port() const { return reuse_port_; }
  uid_t owner() const { return owner_; }
  void set_owner(uid_t uid) { owner_ = uid; }
  bool v6_only() const { return v6_only_; }
  bool listening() const { return is_listening(); }
  // Whether a packet to `to` may be for this socket: its bound address covers it.
  bool covers(const InetAddress& to) const;

 protected:
  bool is_stored_option(int level, int option) const override;
  int unknown_option_error(int level) const override {
    return family() == AF_INET6 || level == IPPROTO_IP || level == protocol() ? ENOPROTOOPT
                                                                              : EOPNOTSUPP;
  }
  // Where a packet to `to` goes and what its source would be; `to` becomes definite (any ->
  // loopback). ENETUNREACH: no route. EACCES: broadcast without SO_BROADCAST.
  Result<void> route(InetAddress& to, InetAddress& source) const;
  // Takes a free port if none is bound yet. EAGAIN for none (as inet_autobind()).
  Result<void> autobind();
  void unbind();
  // An address for this family: V6ONLY and IPv4 do not go together.
  Result<InetAddress> parse(const RawAddress& raw) const;

  InetAddress local_, remote_;
  bool bound_ = false;           // has a port
  bool address_chosen_ = false;  // bind() named an address, not only a port
  bool port_chosen_ = false;     // bind() named (or was given) the port
  bool v6_only_ = false;
  uid_t owner_ = 0;
  PortTable& ports_;
};

Result<Ref<Socket>> make_inet_socket(Task& task, int family, int type, int protocol);

}  // namespace uks
