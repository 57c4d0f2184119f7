// The epoll calls.
#include "sentry/fs/epoll/epoll.h"
#include "gen/syscalls.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"
#include "sentry/vfs/anon.h"
#include "sentry/vfs/fd_table.h"
#include "syscalls/wait_mask.h"

namespace uks {
namespace {

Result<int64_t> create(Task& task, int flags) {
  if (flags & ~EPOLL_CLOEXEC) return Err(EINVAL);
  return task.fds().install(task, make_ref<Epoll>(make_anon_inode(task, 0600)),
                            flags & EPOLL_CLOEXEC);
}

// `timeout`: none waits for ever.
Result<int64_t> wait(Task& task, int epfd, UserOut out, int max,
                     std::optional<int64_t> timeout_ns) {
  constexpr int kMax = INT32_MAX / static_cast<int>(sizeof(GuestEpollEvent));
  if (max <= 0 || max > kMax) return Err(EINVAL);
  auto file = TRY(task.call_file(epfd));
  if (file->kind() != FileKind::kEpoll) return Err(EINVAL);
  auto& epoll = static_cast<Epoll&>(*file);
  constexpr size_t kBatch = 4096;  // bounds our memory; the guest asks again for the rest
  std::vector<Epoll::Used> used;
  size_t most = std::min<size_t>(static_cast<size_t>(max), kBatch);
  // What cannot be written is not taken. After a wait it may be different.
  const size_t writable = task.thread ? task.thread->probed() / sizeof(GuestEpollEvent) : 0;
  if (writable < most && task.thread && task.thread->probe_fault() && !task.call().woken) {
    if (writable == 0 && epoll.poll_events_for(task) & EPOLLIN) return Err(EFAULT);
    most = std::max<size_t>(writable, 1);
  }
  auto events = epoll.collect(task, most, used);
  if (!events.empty()) {
    const size_t bytes = events.size() * sizeof(GuestEpollEvent);
    // Events that are told once are written at once where it is not known that they can be: the
    // stub's order may fail when it is too late to keep them (ep_send_events() puts back what it
    // could not copy).
    if (auto r = used.empty() || events.size() <= writable
                     ? task.copy_out(out, events.data(), bytes)
                     : task.write_now(out, events.data(), bytes);
        !r) {
      epoll.put_back(used);
      return Err(r.error());
    }
    return static_cast<int64_t>(events.size());
  }
  CallState& call = task.call();
  if (call.timed_out || (timeout_ns && *timeout_ns == 0)) return 0;
  if (!call.deadline && timeout_ns) call.deadline = deadline_from_relative_ns(*timeout_ns);
  return Err(task.block({{epoll.wait_queue(), EPOLLIN}}, call.deadline, EINTR));
}

Result<int64_t> wait_masked(Task& task, int epfd, UserOut out, int max,
                            std::optional<int64_t> timeout_ns, UserAddr mask, uint64_t mask_size) {
  TRY(enter_wait_mask(task, mask, mask_size));
  return leave_wait_mask(task, wait(task, epfd, out, max, timeout_ns));
}

std::optional<int64_t> from_ms(int ms) {
  if (ms < 0) return std::nullopt;
  return int64_t{ms} * 1'000'000;
}

}  // namespace

Result<int64_t> sys_epoll_create(Task& task, int size) {
  if (size <= 0) return Err(EINVAL);
  return create(task, 0);
}

Result<int64_t> sys_epoll_create1(Task& task, int flags) { return create(task, flags); }

Result<int64_t> sys_epoll_ctl(Task& task, int epfd, int op, int fd, UserIn event_addr) {
  GuestEpollEvent event{};
  if (op != EPOLL_CTL_DEL) event = TRY(task.copy_in<GuestEpollEvent>(event_addr));
  auto file = TRY(task.fds().get_io(epfd));
  auto target = TRY(task.fds().get_io(fd));
  if (!target->wait_queue()) return Err(EPERM);
  if (file->kind() != FileKind::kEpoll || file == target) return Err(EINVAL);
  auto& epoll = static_cast<Epoll&>(*file);
  switch (op) {
    case EPOLL_CTL_ADD:
      TRY(epoll.add(task, fd, *target, event));
      return 0;
    case EPOLL_CTL_MOD:
      TRY(epoll.modify(task, fd, *target, event));
      return 0;
    case EPOLL_CTL_DEL:
      TRY(epoll.remove(fd, *target));
      return 0;
    default:
      return Err(EINVAL);
  }
}

Result<int64_t> sys_epoll_wait(Task& task, int epfd, UserOut events, int maxevents,
                               int timeout_ms) {
  return wait(task, epfd, events, maxevents, from_ms(timeout_ms));
}

Result<int64_t> sys_epoll_pwait(Task& task, int epfd, UserOut events, int maxevents, int timeout_ms,
                                UserIn sigmask, uint64_t sigsetsize) {
  return wait_masked(task, epfd, events, maxevents, from_ms(timeout_ms), sigmask, sigsetsize);
}

Result<int64_t> sys_epoll_pwait2(Task& task, int epfd, UserOut events, int maxevents,
                                 UserIn timeout, UserIn sigmask, uint64_t sigsetsize) {
  std::optional<int64_t> ns;
  if (timeout) ns = to_ns(TRY(copy_in_timespec(task, timeout)));
  return wait_masked(task, epfd, events, maxevents, ns, sigmask, sigsetsize);
}

}  // namespace uks
