// Socket options at level SOL_SOCKET, after net/core/sock.c.
#include <asm/socket.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "sentry/net/socket.h"
#include "sentry/net/stored_options.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"

namespace uks {
namespace {

constexpr size_t kMinSendBuffer = 4608;     // SOCK_MIN_SNDBUF
constexpr size_t kMinReceiveBuffer = 2304;  // SOCK_MIN_RCVBUF

std::string int_bytes(int value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

template <typename T>
Result<T> value_as(std::string_view value) {
  if (value.size() < sizeof(T)) return Err(EINVAL);
  T t;
  memcpy(&t, value.data(), sizeof t);
  return t;
}

// sock_set_timeout(): zero is for ever, negative seconds are no wait at all.
Result<std::optional<MonotonicNs>> timeout_from(std::string_view value) {
  const auto tv = TRY(value_as<timeval>(value));
  if (tv.tv_usec < 0 || tv.tv_usec >= 1'000'000) return Err(EDOM);
  if (tv.tv_sec < 0) return std::optional<MonotonicNs>{0};
  if (tv.tv_sec == 0 && tv.tv_usec == 0) return std::optional<MonotonicNs>{};
  return std::optional<MonotonicNs>{to_ns({.tv_sec = tv.tv_sec, .tv_nsec = tv.tv_usec * 1000})};
}

std::string timeout_bytes(std::optional<MonotonicNs> t) {
  timeval tv{};
  if (t) {
    tv.tv_sec = *t / kNsPerSecond;
    tv.tv_usec = *t % kNsPerSecond / 1000;
  }
  return {reinterpret_cast<const char*>(&tv), sizeof tv};
}

size_t buffer_from(int value, size_t least) {
  const size_t wanted =
      std::min(static_cast<size_t>(static_cast<unsigned>(value)), kDefaultSocketBuffer);
  return std::max(wanted * 2, least);
}

}  // namespace

bool Socket::is_stored_option(int level, int option) const {
  if (level != SOL_SOCKET) return false;
  switch (option) {
    case SO_DONTROUTE:
    case SO_OOBINLINE:
    case SO_NO_CHECK:
    case SO_PRIORITY:
    case SO_TIMESTAMP:
    case SO_TIMESTAMPNS:
    case SO_TIMESTAMPING:
    case SO_INCOMING_CPU:
    case SO_RXQ_OVFL:
    case SO_ZEROCOPY:
    case SO_BUSY_POLL:
    case SO_BINDTOIFINDEX:
    case SO_PASSSEC:
    case SO_MARK:
    case SO_LOCK_FILTER:
    case SO_SELECT_ERR_QUEUE:
      return true;
    default:
      return false;
  }
}

Result<void> Socket::set_option(Task& task, int level, int option, std::string_view value) {
  if (level != SOL_SOCKET) {
    if (!is_stored_option(level, option)) return Err(unknown_option_error(level));
    // Many of the IP options may be given as one byte (do_ip_setsockopt()).
    int v = 0;
    if (value.size() >= sizeof v) {
      v = TRY(value_as<int>(value));
    } else if (!value.empty()) {
      v = static_cast<unsigned char>(value[0]);
    } else {
      return Err(EINVAL);
    }
    v = TRY(check_stored_option(level, option, v, task.creds().has_cap(CAP_NET_ADMIN)));
    // -1 and a segment size of 0: as the system has it.
    const bool unset = v == -1 || (level == IPPROTO_TCP && option == TCP_MAXSEG && v == 0);
    if (unset) {
      stored_.erase({level, option});
    } else {
      stored_[{level, option}] = v;
    }
    return {};
  }
  if (option == SO_BINDTODEVICE) {
    const std::string name(value.substr(0, strnlen(value.data(), value.size())));
    if (!name.empty() && name != "lo") return Err(ENODEV);
    return {};
  }
  const int v = TRY(value_as<int>(value));
  switch (option) {
    case SO_DEBUG:
      if (v && !task.creds().has_cap(CAP_NET_ADMIN)) return Err(EACCES);
      debug_ = v != 0;
      return {};
    case SO_REUSEADDR:
      reuse_address_ = v != 0;
      return {};
    case SO_REUSEPORT:
      if (v && family() == AF_UNIX) return Err(EOPNOTSUPP);
      reuse_port_ = v != 0;
      return {};
    case SO_TYPE:
    case SO_PROTOCOL:
    case SO_DOMAIN:
    case SO_ERROR:
      return Err(ENOPROTOOPT);
    case SO_BROADCAST:
      broadcast_ = v != 0;
      return {};
    case SO_KEEPALIVE:
      keep_alive_ = v != 0;
      return {};
    case SO_PASSCRED:
      if (family() != AF_UNIX) return Err(EOPNOTSUPP);
      pass_credentials_ = v != 0;
      return {};
    case SO_SNDBUFFORCE:
    case SO_RCVBUFFORCE:
      if (!task.creds().has_cap(CAP_NET_ADMIN)) return Err(EPERM);
      [[fallthrough]];
    case SO_SNDBUF:
    case SO_RCVBUF:
      buffer_chosen_ = true;
      if (option == SO_SNDBUF || option == SO_SNDBUFFORCE) {
        send_buffer_ = buffer_from(v, kMinSendBuffer);
        wake_all();
      } else {
        receive_buffer_ = buffer_from(v, kMinReceiveBuffer);
      }
      return {};
    case SO_RCVLOWAT:
      receive_low_water_ = v < 0 ? INT_MAX : std::max(v, 1);
      return {};
    case SO_LINGER:
      linger_ = TRY(value_as<linger>(value));
      return {};
    case SO_RCVTIMEO_OLD:
    case SO_RCVTIMEO_NEW:
      receive_timeout_ = TRY(timeout_from(value));
      return {};
    case SO_SNDTIMEO_OLD:
    case SO_SNDTIMEO_NEW:
      send_timeout_ = TRY(timeout_from(value));
      return {};
    case SO_ATTACH_FILTER:
    case SO_ATTACH_BPF:
      return Err(EPERM);  // no packet filters here: as for who may not load them
    case SO_DETACH_FILTER:
      return Err(ENOENT);
    default:
      if (!is_stored_option(level, option)) return Err(ENOPROTOOPT);
      if (option == SO_MARK && !task.creds().has_cap(CAP_NET_ADMIN)) return Err(EPERM);
      stored_[{level, option}] =
          TRY(check_stored_option(level, option, v, task.creds().has_cap(CAP_NET_ADMIN)));
      return {};
  }
}

Result<std::string> Socket::peer_credentials_option(int option) {
  if (option != SO_PEERCRED) return Err(ENODATA);
  const ucred nobody{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  return std::string(reinterpret_cast<const char*>(&nobody), sizeof nobody);
}

Result<std::string> Socket::get_option(Task&, int level, int option) {
  if (level != SOL_SOCKET) {
    if (!is_stored_option(level, option)) return Err(unknown_option_error(level));
    const auto it = stored_.find({level, option});
    return int_bytes(it == stored_.end() ? 0 : it->second);
  }
  switch (option) {
    case SO_DEBUG:
      return int_bytes(debug_);
    case SO_REUSEADDR:
      return int_bytes(reuse_address_);
    case SO_REUSEPORT:
      return int_bytes(reuse_port_);
    case SO_TYPE:
      return int_bytes(type_);
    case SO_PROTOCOL:
      return int_bytes(protocol_);
    case SO_DOMAIN:
      return int_bytes(family_);
    case SO_ERROR:
      return int_bytes(take_error());
    case SO_BROADCAST:
      return int_bytes(broadcast_);
    case SO_KEEPALIVE:
      return int_bytes(keep_alive_);
    case SO_PASSCRED:
      if (family() != AF_UNIX) return Err(EOPNOTSUPP);
      return int_bytes(pass_credentials_);
    case SO_ACCEPTCONN:
      return int_bytes(is_listening());
    case SO_SNDBUF:
      return int_bytes(static_cast<int>(send_buffer_));
    case SO_RCVBUF:
      return int_bytes(static_cast<int>(receive_buffer_));
    case SO_RCVLOWAT:
      return int_bytes(receive_low_water_);
    case SO_SNDLOWAT:
      return int_bytes(1);
    case SO_LINGER:
      return std::string(reinterpret_cast<const char*>(&linger_), sizeof linger_);
    case SO_RCVTIMEO_OLD:
    case SO_RCVTIMEO_NEW:
      return timeout_bytes(receive_timeout_);
    case SO_SNDTIMEO_OLD:
    case SO_SNDTIMEO_NEW:
      return timeout_bytes(send_timeout_);
    case SO_BINDTODEVICE:
      return std::string();
    case SO_PEERCRED:
    case SO_PEERGROUPS:
      return peer_credentials_option(option);
    default:
      if (!is_stored_option(level, option)) return Err(ENOPROTOOPT);
      const auto it = stored_.find({level, option});
      return int_bytes(it == stored_.end() ? 0 : it->second);
  }
}

}  // namespace uks
