#include "platform/trap/listener.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <cstring>

#include "platform/channel/slot.h"
#include "platform/host/features.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

namespace uks {

pid_t Notifier::wait_for_death() {
  siginfo_t info{};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | __WALL) != 0) {
    if (errno != EINTR) return 0;
  }
  return info.si_pid;
}

Listener::Listener(UniqueFd listener)
    : listener_(std::move(listener)), inert_(eventfd(0, EFD_CLOEXEC)) {
  // Linux 6.6: wake the receiver on the caller's own core (PITFALLS 3). Absent before; only speed.
  if (is_masked(Feature::kSyncWake)) return;
  (void)ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
}

Result<Notification> Listener::receive() {
  seccomp_notif raw;
  memset(&raw, 0, sizeof raw);
  if (ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_RECV, &raw) != 0) return HostErr();
  Notification n{raw.id, raw.pid, raw.data.nr, {}};
  for (int i = 0; i < 6; i++) n.args[i] = raw.data.args[i];
  return n;
}

Result<void> Listener::reply(uint64_t id, int64_t value) {
  seccomp_notif_resp response{};
  response.id = id;
  response.val = value;
  if (ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SEND, &response) != 0) return HostErr();
  return {};
}

Result<void> Listener::approve(uint64_t id) {
  seccomp_notif_resp response{};
  response.id = id;
  response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  if (ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SEND, &response) != 0) return HostErr();
  return {};
}

Result<void> Listener::reply_with_fd(uint64_t id, int fd, int number, uint64_t) {
  seccomp_notif_addfd request{};
  request.id = id;
  request.flags = SECCOMP_ADDFD_FLAG_SETFD | SECCOMP_ADDFD_FLAG_SEND;
  request.srcfd = static_cast<uint32_t>(fd);
  request.newfd = static_cast<uint32_t>(number);
  request.newfd_flags = O_CLOEXEC;
  if (ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_ADDFD, &request) >= 0) return {};
  if (errno != EBADF) return HostErr();
  // The number lies beyond RLIMIT_NOFILE, whose hard limit may be low: the lowest free one then,
  // which is not to be 0, as that says that there is none.
  seccomp_notif_addfd zero = request;
  zero.flags = SECCOMP_ADDFD_FLAG_SETFD;
  zero.srcfd = static_cast<uint32_t>(inert_.get());
  zero.newfd = 0;
  if (ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_ADDFD, &zero) < 0) return HostErr();
  request.flags = SECCOMP_ADDFD_FLAG_SEND;
  request.newfd = 0;
  if (ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_ADDFD, &request) < 0) return HostErr();
  return {};
}

}  // namespace uks
