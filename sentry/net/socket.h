// Socket: what all protocols share; SocketFile: the description that refers to one.
//
// All sockets are queues in the sentry: nothing here reaches the host. A Socket may outlive its
// description (a peer or a bound name refers to it); release() is the end of its life as Linux's
// ->release() is. All under the kernel lock.
#pragma once
#include <sys/socket.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "sentry/net/packet.h"
#include "sentry/task/page_quota.h"
#include "sentry/time/timer_queue.h"
#include "sentry/vfs/file.h"

namespace uks {

inline constexpr size_t kDefaultSocketBuffer = 212992;  // net.core.{r,w}mem_{default,max}

struct SendRequest {
  IoSource& source;
  int flags = 0;               // MSG_*
  RawAddress to;               // empty: the peer
  std::optional<ucred> creds;  // SCM_CREDENTIALS, checked
  FilesInFlight files;
  // After EAGAIN: where to wait for EPOLLOUT, if not on the socket's own queue.
  WaitQueue* wait_on = nullptr;
};

struct RecvRequest {
  IoSink& sink;
  int flags = 0;      // MSG_*
  int out_flags = 0;  // MSG_TRUNC
  RawAddress from;
  std::optional<ucred> creds;  // set by AF_UNIX for SO_PASSCRED
  FilesInFlight files;
  RawAddress to;  // UDP: where it was sent to
};

class Socket : public RefCounted {
 public:
  Socket(int family, int type, int protocol) : family_(family), type_(type), protocol_(protocol) {}

  int family() const { return family_; }
  int type() const { return type_; }
  int protocol() const { return protocol_; }
  bool is_stream() const { return type_ == SOCK_STREAM; }

  virtual Result<void> bind(Task& task, const RawAddress& address) = 0;
  virtual Result<void> listen(Task& task, int backlog) = 0;
  // EAGAIN: not done yet; wait for EPOLLOUT on `*wait_on` and call it again. `again`: this is such
  // a later call. A connection in the background gives EINPROGRESS.
  virtual Result<void> connect(Task& task, const RawAddress& address, bool nonblocking, bool again,
                               WaitQueue** wait_on) = 0;
  // A connected socket, not yet in a description. EAGAIN: wait for EPOLLIN, unless `nonblocking`.
  virtual Result<Ref<Socket>> accept(Task& task, bool nonblocking) = 0;
  // Bytes taken; a stream may take fewer than there are. EPIPE without SIGPIPE, which is the
  // caller's.
  virtual Result<size_t> send(Task& task, SendRequest& request) = 0;
  // Bytes given; for MSG_TRUNC of datagrams their full length.
  virtual Result<size_t> recv(Task& task, RecvRequest& request) = 0;
  // Puts back what recv() of a stream gave last, or the end of it.
  virtual void take_back(std::span<const char>) {}
  virtual Result<void> shutdown(int how) = 0;
  virtual RawAddress name() const = 0;
  virtual Result<RawAddress> peer_name() const = 0;
  virtual uint32_t poll_events() = 0;
  // Bytes that a read would give (FIONREAD).
  virtual size_t readable_bytes() = 0;
  // The last description is gone.
  virtual void release() = 0;

  // Socket options of this protocol; SOL_SOCKET is done here. `value` is what the guest gave.
  virtual Result<void> set_option(Task& task, int level, int option, std::string_view value);
  virtual Result<std::string> get_option(Task& task, int level, int option);

  // Room in the send buffer, taken by packets that nobody has read.
  void charge(size_t n);
  void uncharge(size_t n);
  size_t charged() const { return charged_; }
  // What the packets are charged to besides; without it nothing (tests).
  void set_quota(Ref<PageQuota> quota) { memory_ = make_ref<PageAccount>(std::move(quota)); }
  // ENOBUFS: `n` bytes more are too many for the sandbox.
  Result<void> check_memory(size_t n) const;

  // SO_ERROR and the like: the pending error, which it clears.
  int take_error() { return std::exchange(error_, 0); }
  std::optional<MonotonicNs> receive_timeout() const { return receive_timeout_; }
  std::optional<MonotonicNs> send_timeout() const { return send_timeout_; }
  bool pass_credentials() const { return pass_credentials_; }
  // Whether a stream send to a closed peer raises SIGPIPE.
  bool raises_sigpipe() const { return is_stream(); }
  size_t receive_low_water() const { return static_cast<size_t>(receive_low_water_); }
  // What a read with MSG_WAITALL can wait for at once.
  size_t receive_capacity() const { return receive_buffer_ / 2; }
  // IP_PKTINFO and IPV6_RECVPKTINFO: whether recvmsg tells where a datagram was sent to.
  virtual bool wants_packet_info() const { return false; }

  // Woken with the EPOLL* bits that became true.
  WaitQueue queue;

 protected:
  // Bits of shutdown_.
  static constexpr int kNoReceive = 1;
  static constexpr int kNoSend = 2;

  // Whether room came free, so that writers should hear of it.
  virtual bool writable() const = 0;
  void wake_all();
  void set_error(int error);
  // The send buffer's size now: small when all sockets together hold very much.
  size_t send_limit() const;
  // A connection's other end is charged to the same quota.
  void share_quota(Socket& other) const {
    if (memory_) other.set_quota(Ref<PageQuota>(&memory_->quota()));
  }
  // Whether `level`/`option` is an int that this socket only keeps.
  virtual bool is_stored_option(int level, int option) const;
  // For an option that is none: ENOPROTOOPT, or EOPNOTSUPP where the protocol has no such level.
  virtual int unknown_option_error(int level) const {
    (void)level;
    return EOPNOTSUPP;
  }
  virtual bool is_listening() const { return false; }
  // SO_PEERCRED and SO_PEERGROUPS: only AF_UNIX knows its peers.
  virtual Result<std::string> peer_credentials_option(int option);

  int shutdown_ = 0;
  int error_ = 0;
  bool no_space_ = false;  // somebody saw that there is no room: tell when there is
  bool reuse_address_ = false, reuse_port_ = false, broadcast_ = false, pass_credentials_ = false;
  bool keep_alive_ = false, debug_ = false;
  linger linger_{};
  size_t send_buffer_ = kDefaultSocketBuffer, receive_buffer_ = kDefaultSocketBuffer;
  bool buffer_chosen_ = false;
  int receive_low_water_ = 1;
  std::optional<MonotonicNs> receive_timeout_, send_timeout_;  // lengths, not deadlines
  std::map<std::pair<int, int>, int> stored_;

 private:
  int family_, type_, protocol_;
  size_t charged_ = 0;
  Ref<PageAccount> memory_;
};

class SocketFile final : public File {
 public:
  SocketFile(int flags, Ref<Socket> socket, Ref<Inode> inode)
      : File(Path{}, flags), socket_(std::move(socket)), inode_(std::move(inode)) {}
  ~SocketFile() override;

  Socket& socket() { return *socket_; }
  Inode* inode() const override { return inode_.get(); }
  FileKind kind() const override { return FileKind::kSocket; }
  std::string anonymous_name() const override;
  Result<size_t> read(Task& task, IoSink& sink) override;
  Result<size_t> write(Task& task, IoSource& source) override;
  void take_back(std::span<const char> bytes) override { socket_->take_back(bytes); }
  uint32_t poll_events() override { return socket_->poll_events(); }
  WaitQueue* wait_queue() override { return &socket_->queue; }
  Result<int64_t> ioctl(Task& task, uint32_t request, uint64_t arg) override;

 private:
  Ref<Socket> socket_;
  Ref<Inode> inode_;
};

// socket(2): the errors of each family's create function.
Result<Ref<Socket>> make_socket(Task& task, int family, int type, int protocol);
// socketpair(2): AF_UNIX only, EOPNOTSUPP for others.
Result<std::pair<Ref<Socket>, Ref<Socket>>> make_socket_pair(Task& task, int family, int type,
                                                             int protocol);
// The description of a socket. `flags`: O_NONBLOCK.
Ref<File> make_socket_file(Task& task, Ref<Socket> socket, int flags);

}  // namespace uks
