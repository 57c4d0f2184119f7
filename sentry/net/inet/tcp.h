// TCP over loopback: byte queues between two sockets, with TCP's states as far as programs see
// them. There are no segments, timers or windows: what is sent is received at once.
#pragma once
#include <deque>

#include "sentry/net/inet/inet.h"

namespace uks {

class TcpSocket final : public InetSocket {
 public:
  explicit TcpSocket(int family);

  Result<void> bind(Task& task, const RawAddress& address) override;
  Result<void> listen(Task& task, int backlog) override;
  Result<void> connect(Task& task, const RawAddress& address, bool nonblocking, bool again,
                       WaitQueue** wait_on) override;
  Result<Ref<Socket>> accept(Task& task, bool nonblocking) override;
  Result<size_t> send(Task& task, SendRequest& request) override;
  Result<size_t> recv(Task& task, RecvRequest& request) override;
  Result<void> shutdown(int how) override;
  Result<RawAddress> peer_name() const override;
  uint32_t poll_events() override;
  void take_back(std::span<const char> bytes) override {
    if (bytes.empty()) return;
    received_.prepend(bytes);
    queue.wake(EPOLLIN | EPOLLRDNORM);
  }
  size_t readable_bytes() override { return received_.bytes(); }
  void release() override;
  Result<void> set_option(Task& task, int level, int option, std::string_view value) override;
  Result<std::string> get_option(Task& task, int level, int option) override;

 protected:
  bool is_stored_option(int level, int option) const override;
  // sk_stream_is_writeable(): a third of the buffer is free.
  bool writable() const override { return charged() * 3 <= send_limit() * 2; }
  bool is_listening() const override { return state_ == State::kListening; }

 private:
  enum class State {
    kClosed,  // new, or disconnected again
    kListening,
    kConnecting,  // the listener's backlog is full
    kConnected,   // until both sides are done
    kReset,       // a connection that ended by RST
  };

  // Both sides have said that they send no more: Linux's socket is in TIME_WAIT or gone.
  bool both_finished() const { return (shutdown_ & kNoSend) && fin_received_; }
  TcpSocket* find_listener(const InetAddress& to) const;
  bool backlog_full() const { return backlog_.size() > max_backlog_; }
  // Makes the connection of `client` to this listener.
  void establish(TcpSocket& client);
  void admit_waiting();
  void stop_listening();
  // A RST arrived; `error` is what the next call will say.
  void reset(int error);
  // A FIN arrived.
  void finish_receiving();
  // Leaves the connection without a word to the peer, which has been told.
  void forget_peer();
  void disconnect();
  Result<void> connect_result();

  State state_ = State::kClosed;
  bool fin_received_ = false;
  bool connect_unreported_ = false;  // a non-blocking connect() whose result nobody has asked for
  bool dead_ = false;
  Ref<TcpSocket> peer_;
  PacketQueue received_;
  std::deque<Ref<TcpSocket>> backlog_;  // established, not accepted
  std::deque<Ref<TcpSocket>> waiting_;  // clients for whom there is no room yet
  size_t max_backlog_ = 0;
  TcpSocket* knocks_at_ = nullptr;  // while kConnecting: the listener, whose waiting_ has this
};

}  // namespace uks
