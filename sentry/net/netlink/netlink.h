// AF_NETLINK, NETLINK_ROUTE: what getifaddrs(3) asks. It tells of the one interface, lo, and
// changes nothing.
#pragma once
#include "sentry/net/socket.h"

namespace uks {

class NetlinkSocket final : public Socket {
 public:
  NetlinkSocket(int type, int protocol) : Socket(AF_NETLINK, type, protocol) {}

  Result<void> bind(Task& task, const RawAddress& address) override;
  Result<void> listen(Task&, int) override { return Err(EOPNOTSUPP); }
  Result<void> connect(Task& task, const RawAddress& address, bool nonblocking, bool again,
                       WaitQueue** wait_on) override;
  Result<Ref<Socket>> accept(Task&, bool) override { return Err(EOPNOTSUPP); }
  Result<size_t> send(Task& task, SendRequest& request) override;
  Result<size_t> recv(Task& task, RecvRequest& request) override;
  Result<void> shutdown(int) override { return Err(EOPNOTSUPP); }
  RawAddress name() const override;
  Result<RawAddress> peer_name() const override;
  uint32_t poll_events() override;
  size_t readable_bytes() override { return replies_.empty() ? 0 : replies_.front().size(); }
  void release() override;

 protected:
  bool writable() const override { return true; }
  bool is_stored_option(int level, int option) const override;
  int unknown_option_error(int) const override { return ENOPROTOOPT; }

 private:
  void autobind(Task& task);
  void reply(const std::string& bytes);

  uint32_t port_ = 0;  // nl_pid; 0: none yet
  uint32_t groups_ = 0;
  PacketQueue replies_;
};

// EPROTONOSUPPORT for other protocols than NETLINK_ROUTE.
Result<Ref<Socket>> make_netlink_socket(int type, int protocol);

}  // namespace uks
