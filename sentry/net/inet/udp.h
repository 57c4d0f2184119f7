// UDP over loopback: datagrams straight into the receiver's queue.
#pragma once
#include "sentry/net/inet/inet.h"

namespace uks {

class UdpSocket final : public InetSocket {
 public:
  explicit UdpSocket(int family) : InetSocket(family, SOCK_DGRAM, IPPROTO_UDP, udp_ports()) {}

  Result<void> listen(Task&, int) override { return Err(EOPNOTSUPP); }
  Result<void> connect(Task& task, const RawAddress& address, bool nonblocking, bool again,
                       WaitQueue** wait_on) override;
  Result<Ref<Socket>> accept(Task&, bool) override { return Err(EOPNOTSUPP); }
  Result<size_t> send(Task& task, SendRequest& request) override;
  Result<size_t> recv(Task& task, RecvRequest& request) override;
  Result<void> shutdown(int how) override;
  Result<RawAddress> peer_name() const override;
  uint32_t poll_events() override;
  size_t readable_bytes() override { return received_.empty() ? 0 : received_.front().size(); }
  void release() override;
  bool wants_packet_info() const override;

 protected:
  bool writable() const override { return charged() < send_limit(); }

 private:
  // The socket that a datagram from `source` to `to` is for; null: nobody.
  UdpSocket* find_receiver(const InetAddress& source, const InetAddress& to) const;
  void disconnect();

  bool connected_ = false;
  PacketQueue received_;
};

}  // namespace uks
