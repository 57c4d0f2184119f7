// AF_UNIX sockets of all three types, after net/unix/af_unix.c.
#pragma once
#include <set>

#include "sentry/net/socket.h"
#include "sentry/vfs/path.h"

namespace uks {

class UnixSocket final : public Socket {
 public:
  UnixSocket(int type, int protocol) : Socket(AF_UNIX, type, protocol) {}
  ~UnixSocket() override;

  Result<void> bind(Task& task, const RawAddress& address) override;
  Result<void> listen(Task& task, int backlog) override;
  Result<void> connect(Task& task, const RawAddress& address, bool nonblocking, bool again,
                       WaitQueue** wait_on) override;
  Result<Ref<Socket>> accept(Task& task, bool nonblocking) override;
  Result<size_t> send(Task& task, SendRequest& request) override;
  Result<size_t> recv(Task& task, RecvRequest& request) override;
  Result<void> shutdown(int how) override;
  RawAddress name() const override;
  Result<RawAddress> peer_name() const override;
  uint32_t poll_events() override;
  void take_back(std::span<const char> bytes) override {
    if (bytes.empty() || !is_stream()) return;
    received_.prepend(bytes);
    queue.wake(EPOLLIN | EPOLLRDNORM);
  }
  size_t readable_bytes() override;
  void release() override;
  // f(PacketQueue&) for what was sent to it, and to connections that wait to be accepted.
  template <typename F>
  void each_queue(F f) {
    f(received_);
    for (const Ref<UnixSocket>& connection : backlog_) f(connection->received_);
  }

 protected:
  // unix_writable(): a quarter of the buffer at most is in use.
  bool writable() const override {
    return state_ != State::kListening && charged() * 4 <= send_limit();
  }
  bool is_listening() const override { return state_ == State::kListening; }
  Result<std::string> peer_credentials_option(int option) override;

 private:
  friend void pair_unix_sockets(Task& task, UnixSocket& a, UnixSocket& b);
  enum class State { kClosed, kListening, kConnected };
  struct PeerCreds {
    ucred id{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
    std::vector<gid_t> groups;
  };

  bool connection_based() const { return type() != SOCK_DGRAM; }
  bool dead() const { return dead_; }
  static PeerCreds creds_of(Task& task);
  Result<void> bind_abstract(RawAddress address);
  Result<void> autobind();
  // The socket behind an address. ECONNREFUSED, ENOENT, EACCES, EPROTOTYPE, …
  Result<Ref<UnixSocket>> find(Task& task, const RawAddress& address);
  Result<void> connect_datagram(Task& task, const RawAddress& address);
  void set_datagram_peer(Ref<UnixSocket> peer);
  Result<size_t> send_stream(Task& task, SendRequest& request);
  Result<size_t> send_packet(Task& task, SendRequest& request);
  Result<size_t> recv_stream(Task& task, RecvRequest& request);
  Result<size_t> recv_packet(Task& task, RecvRequest& request);
  void pop_packet();
  bool queue_full() const { return received_.count() > kMaxDatagrams; }
  void hang_up(bool reset);

  static constexpr size_t kMaxDatagrams = 10;  // net.unix.max_dgram_qlen

  State state_ = State::kClosed;
  bool dead_ = false;
  Ref<UnixSocket> peer_;
  RawAddress name_;
  Path place_;  // of a name in the file system
  PacketQueue received_;
  // Listening: connections not accepted yet.
  std::deque<Ref<UnixSocket>> backlog_;
  size_t max_backlog_ = 0;
  // Writers to this datagram socket that wait for room in its queue.
  WaitQueue room_;
  std::set<UnixSocket*> datagram_senders_;  // those connected to it; they unregister themselves
  PeerCreds own_creds_, peer_creds_;
};

Result<Ref<Socket>> make_unix_socket(Task& task, int type, int protocol);
void pair_unix_sockets(Task& task, UnixSocket& a, UnixSocket& b);

}  // namespace uks
