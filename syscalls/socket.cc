// Sockets: creation, names, connections, data and options.
#include <sys/socket.h>

#include <algorithm>
#include <climits>

#include "gen/syscalls.h"
#include "sentry/fs/pipe/pipe.h"
#include "sentry/net/message.h"
#include "sentry/task/kernel.h"
#include "sentry/time/clock.h"
#include "sentry/vfs/fd_table.h"
#include "syscalls/file_io.h"

namespace uks {
namespace {

constexpr uint32_t kTypeMask = 0xf;  // SOCK_TYPE_MASK
constexpr uint32_t kMaxMessages = UIO_MAXIOV;
constexpr size_t kMaxOption = 4096;
constexpr size_t kStreamAhead = 65536;

Result<Ref<SocketFile>> socket_file(Task& task, int fd) {
  Ref<File> file = TRY(task.call_file(fd));
  if (file->kind() != FileKind::kSocket) return Err(ENOTSOCK);
  return ref_cast<SocketFile>(file);
}

// Waits for `events`, or gives EAGAIN where the call must not (any more). `timeout`: SO_RCVTIMEO or
// SO_SNDTIMEO, under which a signal is EINTR (sock_intr_errno()).
Errno wait_on(Task& task, WaitQueue& queue, uint32_t events, bool nonblocking,
              std::optional<MonotonicNs> timeout, int late = EAGAIN) {
  CallState& call = task.call();
  if (nonblocking) return Errno{EAGAIN};
  if (!timeout) return task.block({{&queue, events}});
  if (call.timed_out || *timeout == 0) return Errno{late};
  if (!call.deadline) call.deadline = deadline_from_relative_ns(*timeout);
  return task.block({{&queue, events}}, call.deadline, EINTR);
}

// ---- Sending

// What a send that waits has taken from its caller.
struct Sending final : CallData {
  RawAddress to;
  std::optional<ucred> creds;
  FilesInFlight files;
};

// What was sent by earlier runs of a blocking stream send is in call().progress.
Result<int64_t> send_data(Task& task, SocketFile& file, UserIovec ranges, SendRequest&& blank) {
  Socket& socket = file.socket();
  const bool nonblocking = file.nonblocking() || (blank.flags & MSG_DONTWAIT);
  uint64_t& done = task.call().progress;
  skip_bytes(ranges, done);
  GuestSource source(task, std::move(ranges));
  // A stream takes what it has room for, a message is one.
  const size_t ahead = socket.is_stream() ? kStreamAhead : source.remaining();
  SendRequest request{.source = source,
                      .flags = blank.flags,
                      .to = std::move(blank.to),
                      .creds = blank.creds,
                      .files = std::move(blank.files),
                      .wait_on = nullptr};
  while (true) {
    auto n = with_fetched(source, ahead, [&] { return socket.send(task, request); });
    if (n) {
      done += *n;
      if (!socket.is_stream() || source.remaining() == 0 || *n == 0) break;
      continue;
    }
    Errno e = n.error();
    if (e == EAGAIN) {
      WaitQueue* queue = request.wait_on ? request.wait_on : &socket.queue;
      e = wait_on(task, *queue, EPOLLOUT, nonblocking, socket.send_timeout());
      if (e == kBlocked) {
        auto waits = std::make_unique<Sending>();
        waits->to = std::move(request.to);
        waits->creds = request.creds;
        waits->files = std::move(request.files);
        task.call().data = std::move(waits);
        return Err(e);
      }
    }
    if (done > 0) break;
    if (e == EPIPE && socket.raises_sigpipe() && !(request.flags & MSG_NOSIGNAL))
      send_sigpipe(task);
    return Err(e);
  }
  return static_cast<int64_t>(done);
}

Result<int64_t> send_message(Task& task, SocketFile& file, UserAddr at, uint32_t flags) {
  Message message = TRY(copy_in_message(task, at));
  BufferSource nothing({});
  SendRequest request{.source = nothing,
                      .flags = static_cast<int>(flags),
                      .to = {},
                      .creds = {},
                      .files = {},
                      .wait_on = nullptr};
  if (std::unique_ptr<CallData> earlier = std::move(task.call().data)) {
    auto& waited = static_cast<Sending&>(*earlier);
    request.to = std::move(waited.to);
    request.creds = waited.creds;
    request.files = std::move(waited.files);
    return send_data(task, file, std::move(message.ranges), std::move(request));
  }
  if (message.header.name)
    request.to =
        TRY(copy_in_address(task, UserAddr{message.header.name}, message.header.name_length));
  TRY(parse_control(task, file.socket(), message.header, request));
  return send_data(task, file, std::move(message.ranges), std::move(request));
}

// ---- Receiving

// What a receive gave goes to the guest. Of a stream, what does not arrive goes back; a message is
// whole or lost.
Result<size_t> deliver(Task& task, SocketFile& file, const RecvRequest& request, GuestSink& sink,
                       size_t n) {
  auto arrived = sink.deliver(n);
  if (arrived.value_or(0) == n || task.dead) return arrived;
  if (!file.socket().is_stream()) return Err(EFAULT);
  if (!(request.flags & MSG_PEEK)) file.take_back(sink.undelivered());
  return arrived;
}

// One receive with all its waiting. MSG_WAITALL of streams keeps what came in call().progress; its
// sink, the request's, must be a direct one.
Result<int64_t> recv_data(Task& task, SocketFile& file, RecvRequest& request, GuestSink& sink) {
  Socket& socket = file.socket();
  const bool nonblocking = file.nonblocking() || (request.flags & MSG_DONTWAIT);
  if (nonblocking) request.flags |= MSG_DONTWAIT;
  const bool all =
      socket.is_stream() && (request.flags & MSG_WAITALL) && !(request.flags & MSG_PEEK);
  uint64_t& done = task.call().progress;
  while (true) {
    auto n = socket.recv(task, request);
    if (n) n = deliver(task, file, request, sink, *n);
    if (n) {
      if (!all) return static_cast<int64_t>(*n);
      done += *n;
      if (*n == 0 || request.sink.remaining() == 0 || !request.files.empty())
        return static_cast<int64_t>(done);
      continue;
    }
    Errno e = n.error();
    if (e == EAGAIN) {
      e = wait_on(task, socket.queue, EPOLLIN, nonblocking, socket.receive_timeout());
      if (e == kBlocked) return Err(e);
    }
    if (all && done > 0) return static_cast<int64_t>(done);
    return Err(e);
  }
}

bool waits_for_all(const SocketFile& file, uint32_t flags) {
  return const_cast<SocketFile&>(file).socket().is_stream() && (flags & MSG_WAITALL);
}

RecvRequest recv_request(IoSink& sink, uint32_t flags) {
  return {.sink = sink,
          .flags = static_cast<int>(flags),
          .out_flags = 0,
          .from = {},
          .creds = {},
          .files = {},
          .to = {}};
}

// `direct`: results must reach the guest even if the call blocks afterwards.
Result<int64_t> recv_message(Task& task, SocketFile& file, UserAddr at, uint32_t flags,
                             bool direct) {
  Message message = TRY(copy_in_message(task, at));
  const GuestMsghdr& header = message.header;
  direct = direct || waits_for_all(file, flags);
  GuestWriter writer(task, direct);
  if (waits_for_all(file, flags)) skip_bytes(message.ranges, task.call().progress);
  GuestSink sink = writer.make_sink(std::move(message.ranges));
  RecvRequest request = recv_request(sink, flags);
  const int64_t n = TRY(recv_data(task, file, request, sink));
  const auto control =
      TRY(deliver_control(task, writer, file.socket(), header, request, flags & MSG_CMSG_CLOEXEC));
  if (header.name) {
    TRY(copy_out_address(writer, UserAddr{header.name}, header.name_length,
                         at + offsetof(GuestMsghdr, name_length), request.from));
  }
  const uint32_t out_flags =
      static_cast<uint32_t>(request.out_flags | control.flags) | (flags & MSG_CMSG_CLOEXEC);
  TRY(writer.put(at + offsetof(GuestMsghdr, flags), &out_flags, sizeof out_flags));
  TRY(writer.put(at + offsetof(GuestMsghdr, control_length), &control.length,
                 sizeof control.length));
  return n;
}

// ---- Accepting

Result<int64_t> accept_connection(Task& task, int fd, UserAddr address, UserAddr length,
                                  int flags) {
  if (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) return Err(EINVAL);
  Ref<SocketFile> listener = TRY(socket_file(task, fd));
  Socket& socket = listener->socket();
  const Result<int> allowed = address ? task.copy_in<int>(length) : Result<int>(0);
  if (task.dead) return Err(EINTR);
  // A connection that gets no descriptor stays in the queue: the descriptor comes first.
  int made = -1;
  if (socket.poll_events() & EPOLLIN)
    made = TRY(task.fds().install(task, listener, flags & SOCK_CLOEXEC));
  auto accepted = socket.accept(task, listener->nonblocking());
  const auto give_up = [&](Errno e) {
    if (made >= 0) (void)task.fds().close(task, made);
    return Err(e);
  };
  if (!accepted) {
    const Errno e = accepted.error();
    if (e == EAGAIN)
      return give_up(
          wait_on(task, socket.queue, EPOLLIN, listener->nonblocking(), socket.receive_timeout()));
    return give_up(e);
  }
  if (made < 0) made = TRY(task.fds().install(task, listener, flags & SOCK_CLOEXEC));
  const Ref<Socket> connection = *accepted;
  const Ref<File> file =
      make_socket_file(task, std::move(*accepted), flags & SOCK_NONBLOCK ? O_NONBLOCK : 0);
  if (address) {
    const auto peer = connection->peer_name();
    if (!peer) return give_up(Errno{ECONNABORTED});
    GuestWriter writer(task, true);  // a descriptor whose name did not arrive would be lost
    if (!allowed) return give_up(allowed.error());
    if (auto r = copy_out_address(writer, address, *allowed, length, *peer); !r)
      return give_up(r.error());
  }
  // While the name was written the number may have become another file's.
  if (const auto there = task.fds().get(made); !there || *there != listener)
    return TRY(task.fds().install(task, file, flags & SOCK_CLOEXEC));
  TRY(task.fds().install_at(task, made, file, flags & SOCK_CLOEXEC));
  return made;
}

Result<int64_t> give_name(Task& task, UserAddr address, UserAddr length, const RawAddress& name) {
  const int allowed = TRY(task.copy_in<int>(length));
  GuestWriter writer(task, false);
  TRY(copy_out_address(writer, address, allowed, length, name));
  return 0;
}

Result<int> type_flags(int type) {
  const int flags = type & ~static_cast<int>(kTypeMask);
  if (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) return Err(EINVAL);
  return flags;
}

}  // namespace

Result<int64_t> sys_socket(Task& task, int family, int type, int protocol) {
  const int flags = TRY(type_flags(type));
  Ref<Socket> socket = TRY(make_socket(task, family, type & static_cast<int>(kTypeMask), protocol));
  return task.fds().install(
      task, make_socket_file(task, std::move(socket), flags & SOCK_NONBLOCK ? O_NONBLOCK : 0),
      flags & SOCK_CLOEXEC);
}

Result<int64_t> sys_socketpair(Task& task, int family, int type, int protocol, UserOut fds) {
  const int flags = TRY(type_flags(type));
  auto [a, b] = TRY(make_socket_pair(task, family, type & static_cast<int>(kTypeMask), protocol));
  const int status = flags & SOCK_NONBLOCK ? O_NONBLOCK : 0;
  const bool cloexec = flags & SOCK_CLOEXEC;
  Ref<File> first = make_socket_file(task, std::move(a), status),
            second = make_socket_file(task, std::move(b), status);
  const int one = TRY(task.fds().install(task, std::move(first), cloexec));
  auto other = task.fds().install(task, std::move(second), cloexec);
  Result<void> done;
  if (other) {
    const int pair[2] = {one, *other};
    done = task.write_now(fds, pair, sizeof pair);
    if (done) return 0;
    (void)task.fds().close(task, *other);
  }
  (void)task.fds().close(task, one);
  return Err(other ? done.error() : other.error());
}

Result<int64_t> sys_bind(Task& task, int fd, UserIn address, int length) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  TRY(file->socket().bind(task, TRY(copy_in_address(task, address, length))));
  return 0;
}

Result<int64_t> sys_listen(Task& task, int fd, int backlog) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  TRY(file->socket().listen(task, backlog));
  return 0;
}

Result<int64_t> sys_connect(Task& task, int fd, UserIn address, int length) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  Socket& socket = file->socket();
  const RawAddress to = TRY(copy_in_address(task, address, length));
  WaitQueue* queue = nullptr;
  auto r = socket.connect(task, to, file->nonblocking(), task.call().woken, &queue);
  if (r) return 0;
  if (r.error() == EAGAIN && queue) {
    const int late = socket.family() == AF_UNIX ? EAGAIN : EINPROGRESS;
    return Err(wait_on(task, *queue, EPOLLOUT, false, socket.send_timeout(), late));
  }
  return Err(r.error());
}

Result<int64_t> sys_accept(Task& task, int fd, UserAddr address, UserInOut length) {
  return accept_connection(task, fd, address, length, 0);
}

Result<int64_t> sys_accept4(Task& task, int fd, UserAddr address, UserInOut length, int flags) {
  return accept_connection(task, fd, address, length, flags);
}

Result<int64_t> sys_shutdown(Task& task, int fd, int how) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  if (how < SHUT_RD || how > SHUT_RDWR) return Err(EINVAL);
  TRY(file->socket().shutdown(how));
  return 0;
}

Result<int64_t> sys_getsockname(Task& task, int fd, UserAddr address, UserInOut length) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  return give_name(task, address, length, file->socket().name());
}

Result<int64_t> sys_getpeername(Task& task, int fd, UserAddr address, UserInOut length) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  return give_name(task, address, length, TRY(file->socket().peer_name()));
}

Result<int64_t> sys_sendto(Task& task, int fd, UserIn buf, uint64_t count, uint32_t flags,
                           UserIn address, int length) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  BufferSource nothing({});
  SendRequest request{.source = nothing,
                      .flags = static_cast<int>(flags),
                      .to = {},
                      .creds = {},
                      .files = {},
                      .wait_on = nullptr};
  if (address) request.to = TRY(copy_in_address(task, address, length));
  return send_data(task, *file, TRY(one_range(buf, count)), std::move(request));
}

Result<int64_t> sys_sendmsg(Task& task, int fd, UserIn message, uint32_t flags) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  return send_message(task, *file, message, flags);
}

Result<int64_t> sys_recvfrom(Task& task, int fd, UserOut buf, uint64_t count, uint32_t flags,
                             UserAddr address, UserInOut length) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  UserIovec ranges = TRY(one_range(buf, count));
  const bool all = waits_for_all(*file, flags);
  if (all) skip_bytes(ranges, task.call().progress);
  GuestWriter writer(task, all);
  GuestSink sink = writer.make_sink(std::move(ranges));
  RecvRequest request = recv_request(sink, flags);
  const int64_t n = TRY(recv_data(task, *file, request, sink));
  if (address) {
    const int allowed = TRY(task.copy_in<int>(length));
    TRY(copy_out_address(writer, address, allowed, length, request.from));
  }
  return n;
}

Result<int64_t> sys_recvmsg(Task& task, int fd, UserInOut message, uint32_t flags) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  return recv_message(task, *file, message, flags, false);
}

// Where a message would have to wait after others went, this says how many went, as after an error.
Result<int64_t> sys_sendmmsg(Task& task, int fd, UserInOut messages, uint32_t count,
                             uint32_t flags) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  count = std::min(count, kMaxMessages);
  uint32_t sent = 0;
  for (; sent < count; sent++) {
    const UserAddr at = messages + uint64_t{sent} * sizeof(mmsghdr);
    const uint32_t how = sent == 0 ? flags : flags | MSG_DONTWAIT;
    auto n = send_message(task, *file, at, how);
    if (!n) {
      if (sent == 0) return n;
      break;
    }
    task.call().progress = 0;
    const auto length = static_cast<uint32_t>(*n);
    TRY(task.copy_out(at + offsetof(mmsghdr, msg_len), length));
  }
  return sent;
}

Result<int64_t> sys_recvmmsg(Task& task, int fd, UserInOut messages, uint32_t count, uint32_t flags,
                             UserInOut timeout) {
  // How many messages earlier runs have received.
  struct Received final : CallData {
    uint32_t count = 0;
    MonotonicNs deadline = INT64_MAX;
  };
  if (!task.call().data) {
    auto fresh = std::make_unique<Received>();
    if (timeout) fresh->deadline = deadline_from_relative(TRY(copy_in_timespec(task, timeout)));
    task.call().data = std::move(fresh);
  }
  auto& received = static_cast<Received&>(*task.call().data);
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  count = std::min(count, kMaxMessages);
  GuestWriter writer(task, true);
  while (received.count < count) {
    const UserAddr at = messages + uint64_t{received.count} * sizeof(mmsghdr);
    uint32_t how = flags & ~static_cast<uint32_t>(MSG_WAITFORONE);
    if ((flags & MSG_WAITFORONE) && received.count > 0) how |= MSG_DONTWAIT;
    auto n = recv_message(task, *file, at, how, true);
    if (!n) {
      if (n.error() == kBlocked || received.count == 0) return n;
      break;
    }
    task.call().progress = 0;
    const auto length = static_cast<uint32_t>(*n);
    TRY(writer.put(at + offsetof(mmsghdr, msg_len), &length, sizeof length));
    received.count++;
    // The time-out is looked at after each message only, see BUGS in recvmmsg(2).
    if (timeout && monotonic_now() >= received.deadline) break;
  }
  if (timeout) {
    const auto left = to_timespec(std::max<int64_t>(received.deadline - monotonic_now(), 0));
    TRY(task.copy_out(timeout, left));
  }
  return received.count;
}

Result<int64_t> sys_setsockopt(Task& task, int fd, int level, int option, UserIn value,
                               int length) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  if (length < 0) return Err(EINVAL);
  std::string bytes(std::min(static_cast<size_t>(length), kMaxOption), '\0');
  if (!bytes.empty()) TRY(task.copy_in(value, bytes.data(), bytes.size()));
  TRY(file->socket().set_option(task, level, option, bytes));
  return 0;
}

Result<int64_t> sys_getsockopt(Task& task, int fd, int level, int option, UserAddr value,
                               UserInOut length) {
  Ref<SocketFile> file = TRY(socket_file(task, fd));
  const int allowed = TRY(task.copy_in<int>(length));
  if (allowed < 0) return Err(EINVAL);
  const std::string bytes = TRY(file->socket().get_option(task, level, option));
  const auto n = static_cast<int32_t>(std::min(bytes.size(), static_cast<size_t>(allowed)));
  TRY(task.copy_out(value, bytes.data(), static_cast<size_t>(n)));
  TRY(task.copy_out(length, n));
  return 0;
}

}  // namespace uks
