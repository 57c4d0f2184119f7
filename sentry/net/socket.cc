// What all protocols share: buffers, errors, and the descriptions of sockets.
#include "sentry/net/socket.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <fmt/format.h>

#include "sentry/fs/pipe/pipe.h"
#include "sentry/net/inet/inet.h"
#include "sentry/net/netlink/netlink.h"
#include "sentry/net/unix/unix_socket.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/vfs/anon.h"

namespace uks {
namespace {

// Host memory in the queues of all sockets; beyond kSoftTotal each may hold little only, as pipes
// do.
constexpr size_t kSoftTotal = size_t{256} << 20;
size_t total_charged = 0;  // under the kernel lock

constexpr int kMaxProtocol = 262;  // IPPROTO_MAX before MPTCP counted

Result<Ref<Socket>> make_bare_socket(Task& task, int family, int type, int protocol) {
  if (family < 0 || family >= AF_MAX) return Err(EAFNOSUPPORT);
  if (type < 0 || type > SOCK_PACKET) return Err(EINVAL);
  switch (family) {
    case AF_UNIX:
      return make_unix_socket(task, type, protocol);
    case AF_INET:
    case AF_INET6:
      if (protocol < 0 || protocol > kMaxProtocol) return Err(EINVAL);
      return make_inet_socket(task, family, type, protocol);
    case AF_NETLINK:
      return make_netlink_socket(type, protocol);
    default:
      return Err(EAFNOSUPPORT);
  }
}

}  // namespace

void Socket::charge(size_t n) {
  charged_ += n;
  total_charged += n;
  if (memory_) memory_->set(PageQuota::pages_of(charged_));
}

Result<void> Socket::check_memory(size_t n) const {
  if (!memory_) return {};
  const uint64_t pages = PageQuota::pages_of(charged_ + n);
  if (pages > memory_->pages() && pages - memory_->pages() > memory_->quota().available())
    return Err(ENOBUFS);
  return {};
}

void Socket::uncharge(size_t n) {
  charged_ -= n;
  total_charged -= n;
  if (memory_) memory_->set(PageQuota::pages_of(charged_));
  if (no_space_ && writable()) {
    no_space_ = false;
    queue.wake(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND);
  }
}

size_t Socket::send_limit() const { return total_charged > kSoftTotal ? 4096 : send_buffer_; }

void Socket::wake_all() {
  queue.wake(EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM | EPOLLRDBAND | EPOLLWRBAND |
             EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLPRI);
}

void Socket::set_error(int error) {
  error_ = error;
  wake_all();
}

SocketFile::~SocketFile() { socket_->release(); }

std::string SocketFile::anonymous_name() const {
  return fmt::format("socket:[{}]", anon_inode_number(*inode_));
}

Result<size_t> SocketFile::read(Task& task, IoSink& sink) {
  if (sink.remaining() == 0) return 0;  // sock_read_iter(): "Match SYS5 behaviour"
  RecvRequest request{
      .sink = sink, .flags = 0, .out_flags = 0, .from = {}, .creds = {}, .files = {}, .to = {}};
  return socket_->recv(task, request);
}

Result<size_t> SocketFile::write(Task& task, IoSource& source) {
  SendRequest request{
      .source = source, .flags = 0, .to = {}, .creds = {}, .files = {}, .wait_on = nullptr};
  auto n = socket_->send(task, request);
  if (!n && n.error() == EPIPE && socket_->raises_sigpipe()) send_sigpipe(task);
  return n;
}

Result<int64_t> SocketFile::ioctl(Task& task, uint32_t request, uint64_t arg) {
  switch (request) {
    case FIONREAD:
      // tcp_ioctl(), unix_inq_len().
      if (TRY(socket_->get_option(task, SOL_SOCKET, SO_ACCEPTCONN))[0]) return Err(EINVAL);
      TRY(task.copy_out(UserAddr{arg}, static_cast<int32_t>(socket_->readable_bytes())));
      return 0;
    case SIOCOUTQ:
      TRY(task.copy_out(UserAddr{arg}, static_cast<int32_t>(socket_->charged())));
      return 0;
    case SIOCATMARK:
      TRY(task.copy_out(UserAddr{arg}, int32_t{0}));
      return 0;
    default:
      return Err(ENOTTY);
  }
}

Result<Ref<Socket>> make_socket(Task& task, int family, int type, int protocol) {
  Ref<Socket> socket = TRY(make_bare_socket(task, family, type, protocol));
  socket->set_quota(task.kernel().pages);
  return socket;
}

Result<std::pair<Ref<Socket>, Ref<Socket>>> make_socket_pair(Task& task, int family, int type,
                                                             int protocol) {
  Ref<Socket> a = TRY(make_socket(task, family, type, protocol));
  Ref<Socket> b = TRY(make_socket(task, family, type, protocol));
  if (family != AF_UNIX) {
    a->release();
    b->release();
    return Err(EOPNOTSUPP);
  }
  pair_unix_sockets(task, static_cast<UnixSocket&>(*a), static_cast<UnixSocket&>(*b));
  return std::pair{std::move(a), std::move(b)};
}

Ref<File> make_socket_file(Task& task, Ref<Socket> socket, int flags) {
  return make_ref<SocketFile>(O_RDWR | (flags & O_NONBLOCK), std::move(socket),
                              make_anon_inode(task, S_IFSOCK | 0777));
}

}  // namespace uks
