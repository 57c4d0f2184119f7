// AF_UNIX: data, credentials and descriptors.
#include <sys/un.h>

#include <algorithm>

#include "sentry/net/unix/unix_socket.h"
#include "sentry/task/kernel.h"

namespace uks {

Result<size_t> UnixSocket::send(Task& task, SendRequest& request) {
  if (request.flags & MSG_OOB) return Err(EOPNOTSUPP);
  if (!request.creds) request.creds = ucred{task.tgid(), task.creds().euid, task.creds().egid};
  return is_stream() ? send_stream(task, request) : send_packet(task, request);
}

// unix_stream_sendmsg().
Result<size_t> UnixSocket::send_stream(Task&, SendRequest& request) {
  if (!request.to.empty()) return Err(state_ == State::kConnected ? EISCONN : EOPNOTSUPP);
  if (state_ != State::kConnected) return Err(ENOTCONN);
  if (!peer_ || (shutdown_ & kNoSend) || peer_->dead() || (peer_->shutdown_ & kNoReceive))
    return Err(EPIPE);
  if (request.source.remaining() == 0) return 0;
  const size_t limit = send_limit();
  if (charged() >= limit) {
    no_space_ = true;
    return Err(EAGAIN);
  }
  const size_t n = TRY(peer_->received_.append(*this, request.source, limit - charged(),
                                               *request.creds, request.files));
  if (request.source.remaining() > 0) no_space_ = true;
  peer_->queue.wake(EPOLLIN | EPOLLRDNORM | EPOLLRDBAND);
  return n;
}

// unix_dgram_sendmsg() and unix_seqpacket_sendmsg().
Result<size_t> UnixSocket::send_packet(Task& task, SendRequest& request) {
  const bool seqpacket = type() == SOCK_SEQPACKET;
  Ref<UnixSocket> other;
  if (seqpacket) {
    if (error_) return Err(take_error());
    if (state_ != State::kConnected) return Err(ENOTCONN);
    other = peer_;  // an address is ignored
  } else if (!request.to.empty()) {
    other = TRY(find(task, request.to));
  } else {
    other = peer_;
  }
  if (!other) return Err(seqpacket ? EPIPE : ENOTCONN);
  const size_t length = request.source.remaining();
  if (length > send_buffer_ - 32) return Err(EMSGSIZE);
  if (!seqpacket && other->peer_ && other->peer_.get() != this) return Err(EPERM);
  if (other->dead()) {
    if (other == peer_ && !seqpacket) {
      set_datagram_peer(nullptr);
      return Err(ECONNREFUSED);
    }
    return Err(seqpacket ? EPIPE : ECONNREFUSED);
  }
  if (shutdown_ & kNoSend) return Err(EPIPE);
  if (other->shutdown_ & kNoReceive) return Err(EPIPE);
  if (charged() >= send_limit()) {
    no_space_ = true;
    return Err(EAGAIN);
  }
  if (other.get() != this && other->peer_.get() != this && other->queue_full()) {
    request.wait_on = &other->room_;
    no_space_ = true;
    return Err(EAGAIN);
  }
  Packet packet = TRY(Packet::make(*this, length));
  while (packet.end < length) {
    const size_t n = TRY(request.source.read(packet.data.get() + packet.end, length - packet.end));
    if (n == 0) return Err(EFAULT);
    packet.end += n;
  }
  packet.creds = *request.creds;
  packet.files = std::move(request.files);
  packet.from = name_;
  other->received_.push(std::move(packet));
  other->queue.wake(EPOLLIN | EPOLLRDNORM | EPOLLRDBAND);
  return length;
}

Result<size_t> UnixSocket::recv(Task& task, RecvRequest& request) {
  if (request.flags & MSG_OOB) return Err(is_stream() ? EINVAL : EOPNOTSUPP);
  if (request.flags & MSG_ERRQUEUE) return Err(EAGAIN);
  return is_stream() ? recv_stream(task, request) : recv_packet(task, request);
}

// unix_stream_read_generic().
Result<size_t> UnixSocket::recv_stream(Task&, RecvRequest& request) {
  if (state_ != State::kConnected) return Err(EINVAL);
  if (received_.empty()) {
    if (error_) return Err(take_error());
    if (shutdown_ & kNoReceive) return 0;
    return Err(EAGAIN);
  }
  PacketQueue::StreamRead how;
  how.peek = request.flags & MSG_PEEK;
  how.same_creds = pass_credentials_;
  if (peer_) request.from = peer_->name_;
  const size_t n = TRY(received_.take(request.sink, how));
  if (pass_credentials_) request.creds = how.creds;
  request.files = std::move(how.files);
  return n;
}

void UnixSocket::pop_packet() {
  const bool was_full = queue_full();
  received_.pop();
  if (!was_full || queue_full()) return;
  room_.wake(EPOLLOUT);
  for (UnixSocket* sender : datagram_senders_)
    sender->queue.wake(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND);
}

// unix_dgram_recvmsg() and unix_seqpacket_recvmsg().
Result<size_t> UnixSocket::recv_packet(Task&, RecvRequest& request) {
  const bool seqpacket = type() == SOCK_SEQPACKET;
  if (seqpacket && state_ != State::kConnected) return Err(ENOTCONN);
  if (error_) return Err(take_error());
  if (received_.empty()) {
    if (shutdown_ & kNoReceive) {
      // A nonblocking datagram socket says EAGAIN even then: __skb_try_recv_datagram() looks no
      // further.
      if (seqpacket || !(request.flags & MSG_DONTWAIT)) return 0;
    }
    return Err(EAGAIN);
  }
  Packet& packet = received_.front();
  const size_t length = packet.size();
  const size_t part = std::min(length, request.sink.remaining());
  if (part > 0) {
    if (auto r = request.sink.write_whole(packet.bytes(), part); !r) {
      // It is lost all the same (skb_free_datagram()).
      if (!(request.flags & MSG_PEEK)) pop_packet();
      return Err(r.error());
    }
  }
  if (part < length) request.out_flags |= MSG_TRUNC;
  if (pass_credentials_) request.creds = packet.creds;
  request.from = packet.from;
  if (request.flags & MSG_PEEK) {
    if (!packet.files.empty()) request.files = TRY(packet.files.copy());
  } else {
    request.files = received_.take_files();
    pop_packet();
  }
  return request.flags & MSG_TRUNC ? length : part;
}

}  // namespace uks
