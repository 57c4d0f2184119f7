// Control messages, after net/core/scm.c.
#include "sentry/net/message.h"

#include <asm/socket.h>
#include <linux/capability.h>
#include <netinet/in.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "sentry/net/inet/address.h"
#include "sentry/task/kernel.h"
#include "sentry/vfs/fd_table.h"

namespace uks {
namespace {

constexpr size_t kMaxFds = 253;          // SCM_MAX_FD
constexpr uint64_t kMaxControl = 20480;  // net.core.optmem_max
constexpr int kLoopbackIndex = 1;

// scm_check_creds().
Result<void> check_creds(Task& task, const ucred& wanted) {
  const Credentials& c = task.creds();
  const auto one_of = [](uid_t id, uid_t a, uid_t b, uid_t d) {
    return id == a || id == b || id == d;
  };
  const bool pid_ok = wanted.pid == task.tgid() || c.has_cap(CAP_SYS_ADMIN);
  const bool uid_ok = one_of(wanted.uid, c.ruid, c.euid, c.suid) || c.has_cap(CAP_SETUID);
  const bool gid_ok = one_of(wanted.gid, c.rgid, c.egid, c.sgid) || c.has_cap(CAP_SETGID);
  if (!pid_ok || !uid_ok || !gid_ok) return Err(EPERM);
  if (wanted.pid != task.tgid() && !task.kernel().find_group(wanted.pid)) return Err(ESRCH);
  return {};
}

// put_cmsg(): one control message at a time, as long as there is room.
class ControlWriter {
 public:
  ControlWriter(GuestWriter& writer, const GuestMsghdr& header)
      : writer_(writer), at_(header.control), room_(header.control ? header.control_length : 0) {}

  Result<void> put(int level, int type, const void* data, size_t n) {
    return put_with(writer_, level, type, data, n);
  }
  // As put(), but the guest has it at once.
  Result<void> put_now(Task& task, int level, int type, const void* data, size_t n) {
    GuestWriter direct(task, true);
    return put_with(direct, level, type, data, n);
  }
  size_t fds_that_fit() const {
    return room_ < sizeof(cmsghdr) ? 0 : (room_ - sizeof(cmsghdr)) / sizeof(int);
  }
  void truncate() { truncated_ = true; }
  ControlResult result() const { return {truncated_ ? static_cast<int>(MSG_CTRUNC) : 0, length_}; }

 private:
  Result<void> put_with(GuestWriter& writer, int level, int type, const void* data, size_t n) {
    if (room_ < sizeof(cmsghdr)) {
      truncated_ = true;
      return {};
    }
    cmsghdr header{};
    header.cmsg_len = CMSG_LEN(n);
    if (header.cmsg_len > room_) {
      truncated_ = true;
      header.cmsg_len = room_;
    }
    header.cmsg_level = level;
    header.cmsg_type = type;
    TRY(writer.put({at_}, &header, sizeof header));
    TRY(writer.put({at_ + sizeof header}, data, header.cmsg_len - sizeof header));
    const uint64_t used = std::min<uint64_t>(CMSG_SPACE(n), room_);
    at_ += used;
    room_ -= used;
    length_ += used;
    return {};
  }

  GuestWriter& writer_;
  uint64_t at_, room_;
  uint64_t length_ = 0;
  bool truncated_ = false;
};

// IP_PKTINFO, IPV6_RECVPKTINFO: everything came over lo.
Result<void> put_packet_info(ControlWriter& out, const Socket& socket, const RawAddress& raw) {
  const InetAddress to = TRY(parse_inet_address(socket.family(), raw));
  if (to.is_v4()) {
    in_pktinfo info{};
    info.ipi_ifindex = kLoopbackIndex;
    memcpy(&info.ipi_addr, &to.ip[12], 4);
    info.ipi_spec_dst = info.ipi_addr;
    if (socket.family() == AF_INET) return out.put(IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
  }
  in6_pktinfo info{};
  info.ipi6_ifindex = kLoopbackIndex;
  memcpy(&info.ipi6_addr, to.ip.data(), 16);
  return out.put(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
}

}  // namespace

uint64_t total_bytes(const UserIovec& ranges) {
  uint64_t n = 0;
  for (const iovec& r : ranges) n += r.iov_len;
  return n;
}

void skip_bytes(UserIovec& ranges, uint64_t skip) {
  for (iovec& r : ranges) {
    const uint64_t part = std::min<uint64_t>(skip, r.iov_len);
    r.iov_base = static_cast<char*>(r.iov_base) + part;
    r.iov_len -= part;
    skip -= part;
  }
}

Result<void> GuestWriter::put(UserAddr to, const void* from, size_t n) {
  if (n == 0) return {};
  if (!direct_) return task_.copy_out(to, from, n);
  return task_.write_now(to, from, n);
}

Result<RawAddress> copy_in_address(Task& task, UserAddr at, int64_t length) {
  if (length < 0 || length > static_cast<int64_t>(sizeof(sockaddr_storage))) return Err(EINVAL);
  RawAddress address(static_cast<size_t>(length), '\0');
  if (length > 0) TRY(task.copy_in(at, address.data(), address.size()));
  return address;
}

Result<void> copy_out_address(GuestWriter& writer, UserAddr at, int allowed, UserAddr length_at,
                              const RawAddress& address) {
  if (allowed < 0) return Err(EINVAL);
  TRY(writer.put(at, address.data(), std::min(address.size(), static_cast<size_t>(allowed))));
  const auto length = static_cast<int32_t>(address.size());
  return writer.put(length_at, &length, sizeof length);
}

Result<Message> copy_in_message(Task& task, UserAddr at) {
  Message m;
  m.header = TRY(task.copy_in<GuestMsghdr>(at));
  if (m.header.name && m.header.name_length < 0) return Err(EINVAL);
  if (!m.header.name) m.header.name_length = 0;
  m.header.name_length = std::min<int32_t>(m.header.name_length, sizeof(sockaddr_storage));
  if (m.header.iov_count > UIO_MAXIOV) return Err(EMSGSIZE);
  m.ranges = TRY(task.copy_in_iovec(UserAddr{m.header.iov}, static_cast<int>(m.header.iov_count)));
  return m;
}

Result<void> parse_control(Task& task, Socket& socket, const GuestMsghdr& header,
                           SendRequest& request) {
  if (!header.control || header.control_length == 0) return {};
  if (header.control_length > kMaxControl) return Err(ENOBUFS);
  std::string control(header.control_length, '\0');
  TRY(task.copy_in(UserAddr{header.control}, control.data(), control.size()));
  std::vector<Ref<File>> files;
  for (size_t at = 0; control.size() - at >= sizeof(cmsghdr);) {
    cmsghdr c;
    memcpy(&c, control.data() + at, sizeof c);
    if (c.cmsg_len < sizeof c || c.cmsg_len > control.size() - at) return Err(EINVAL);
    const char* data = control.data() + at + CMSG_LEN(0);
    const size_t length = c.cmsg_len - CMSG_LEN(0);
    if (c.cmsg_level == SOL_SOCKET && c.cmsg_type == SCM_RIGHTS) {
      if (socket.family() != AF_UNIX) return Err(EINVAL);
      if (files.size() + length / sizeof(int) > kMaxFds) return Err(EINVAL);
      for (size_t i = 0; i < length / sizeof(int); i++) {
        int fd;
        memcpy(&fd, data + i * sizeof fd, sizeof fd);
        files.push_back(TRY(task.fds().get(fd)));
      }
    } else if (c.cmsg_level == SOL_SOCKET && c.cmsg_type == SCM_CREDENTIALS) {
      if (socket.family() != AF_UNIX || length != sizeof(ucred)) return Err(EINVAL);
      ucred creds;
      memcpy(&creds, data, sizeof creds);
      TRY(check_creds(task, creds));
      request.creds = creds;
    } else if (c.cmsg_level == SOL_SOCKET) {
      return Err(EINVAL);
    } else if (c.cmsg_level == IPPROTO_UDP) {
      return Err(EINVAL);  // no segmentation offload
    }
    const size_t step = CMSG_ALIGN(c.cmsg_len);
    if (step >= control.size() - at) break;
    at += step;
  }
  if (!files.empty()) request.files = TRY(FilesInFlight::make(std::move(files)));
  return {};
}

Result<ControlResult> deliver_control(Task& task, GuestWriter& writer, Socket& socket,
                                      const GuestMsghdr& header, RecvRequest& request,
                                      bool close_on_exec) {
  ControlWriter out(writer, header);
  if (request.creds)
    TRY(out.put(SOL_SOCKET, SCM_CREDENTIALS, &*request.creds, sizeof *request.creds));
  if (!request.to.empty() && socket.wants_packet_info())
    TRY(put_packet_info(out, socket, request.to));
  if (!request.files.empty()) {
    const auto& files = request.files.files();
    std::vector<int> fds;
    for (const Ref<File>& file : files) {
      if (fds.size() == out.fds_that_fit()) break;
      auto fd = task.fds().install(task, file, close_on_exec);
      if (!fd) break;
      fds.push_back(*fd);
    }
    if (fds.size() < files.size()) out.truncate();
    // A number that does not arrive would be lost for ever: nothing is given then
    // (scm_detach_fds()).
    if (!fds.empty() &&
        !out.put_now(task, SOL_SOCKET, SCM_RIGHTS, fds.data(), fds.size() * sizeof(int))) {
      for (size_t i = 0; i < fds.size(); i++) {
        if (const auto there = task.fds().get(fds[i]); there && *there == files[i])
          (void)task.fds().close(task, fds[i]);
      }
      out.truncate();
    }
  }
  return out.result();
}

}  // namespace uks
