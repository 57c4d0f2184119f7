// poll, ppoll, select and pselect6.
#include <poll.h>

#include <algorithm>

#include "gen/syscalls.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"
#include "sentry/vfs/fd_table.h"
#include "syscalls/wait_mask.h"

namespace uks {
namespace {

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLPRI == EPOLLPRI &&
              POLLERR == EPOLLERR && POLLHUP == EPOLLHUP && POLLRDNORM == EPOLLRDNORM &&
              POLLRDHUP == EPOLLRDHUP);

// What a call watches; read from the guest once, and the descriptions stay open while it waits.
struct PollCall final : CallData {
  struct Entry {
    int fd;
    uint32_t mask;  // POLL* asked for, POLLERR and POLLHUP included
    uint32_t found = 0;
    int16_t before = 0;  // revents as the guest had it
    Ref<File> file;      // null: not open, or to be ignored
  };
  std::vector<Entry> entries;
  bool zero_timeout = false;
};

Ref<File> pollable(Task& task, int fd) {
  auto file = task.fds().get_io(fd);
  return file ? *file : nullptr;
}

// Looks at every file; returns how many entries have something.
int64_t look(PollCall& poll) {
  int64_t count = 0;
  for (auto& e : poll.entries) {
    if (e.file) e.found = e.file->poll_events() & e.mask;
    if (e.found) count++;
  }
  return count;
}

// Nothing was found: 0 when the time is over, else a wait. A pending signal counts even with a zero
// time-out (do_poll(), core_sys_select()).
Result<int64_t> wait(Task& task, PollCall& poll, int interrupted) {
  CallState& call = task.call();
  if (task.has_deliverable_signal()) return Err(interrupted);
  if (call.timed_out || poll.zero_timeout) return 0;
  std::vector<WaitOn> queues;
  queues.reserve(poll.entries.size());
  for (auto& e : poll.entries) {
    if (e.file) queues.push_back({e.file->wait_queue(), e.mask});
  }
  return Err(task.block(queues, call.deadline, interrupted));
}

void set_timeout(Task& task, PollCall& poll, int64_t ns) {
  if (ns == 0) poll.zero_timeout = true;
  if (!task.call().deadline) task.call().deadline = deadline_from_relative_ns(ns);
}

// The call is over unless it waits: its data goes, so that a restart starts anew.
Result<int64_t> finish(Task& task, Result<int64_t> result) {
  if (!result && result.error() == kBlocked) return result;
  task.call().data.reset();
  return result;
}

int64_t remaining_ns(Task& task) {
  return task.call().deadline ? std::max<int64_t>(*task.call().deadline - monotonic_now(), 0) : 0;
}

// ---- poll

Result<int64_t> start_poll(Task& task, UserAddr fds, uint32_t nfds) {
  if (nfds > task.group().limits[RLIMIT_NOFILE].rlim_cur) return Err(EINVAL);
  auto poll = std::make_unique<PollCall>();
  std::vector<pollfd> list(nfds);
  if (nfds) TRY(task.copy_in(fds, list.data(), nfds * sizeof(pollfd)));
  poll->entries.reserve(nfds);
  for (const auto& p : list) {
    const uint32_t mask = static_cast<uint16_t>(p.events) | POLLERR | POLLHUP;
    PollCall::Entry entry{
        .fd = p.fd, .mask = mask, .found = 0, .before = p.revents, .file = nullptr};
    if (p.fd >= 0) {
      entry.file = pollable(task, p.fd);
      if (!entry.file) entry.found = POLLNVAL;
    }
    poll->entries.push_back(std::move(entry));
  }
  task.call().data = std::move(poll);
  return 0;
}

Result<int64_t> run_poll(Task& task, UserAddr fds, int interrupted) {
  auto& poll = static_cast<PollCall&>(*task.call().data);
  const int64_t count = look(poll);
  if (count == 0) {
    auto result = wait(task, poll, interrupted);
    if (!result) return result;
  }
  // Only revents is the kernel's to write, and only where it changes: each write is a host call.
  for (size_t i = 0; i < poll.entries.size(); i++) {
    const auto revents = static_cast<int16_t>(poll.entries[i].found);
    if (revents == poll.entries[i].before) continue;
    TRY(task.copy_out(fds + i * sizeof(pollfd) + offsetof(pollfd, revents), revents));
  }
  return count;
}

// ---- select

constexpr uint32_t kInSet = POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR;
constexpr uint32_t kOutSet = POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR;
constexpr uint32_t kExceptSet = POLLPRI;

struct SelectCall final : CallData {
  PollCall poll;
  std::array<std::vector<uint64_t>, 3> asked;  // empty: a null pointer
};

constexpr std::array<uint32_t, 3> kSets = {kInSet, kOutSet, kExceptSet};

size_t set_words(int nfds) {
  return (static_cast<size_t>(nfds) + 63) / 64;
}

bool bit(const std::vector<uint64_t>& set, int fd) {
  return !set.empty() && (set[static_cast<size_t>(fd) / 64] >> (fd % 64) & 1);
}

// As Linux, which clamps to the size of the table: numbers that cannot be open are not looked at.
int clamp_nfds(Task& task, int nfds) {
  return static_cast<int>(
      std::min<uint64_t>(static_cast<uint64_t>(nfds), task.group().limits[RLIMIT_NOFILE].rlim_cur));
}

Result<int64_t> start_select(Task& task, int nfds, const std::array<UserInOut, 3>& sets) {
  auto select = std::make_unique<SelectCall>();
  for (size_t s = 0; s < 3; s++) {
    if (!sets[s] || nfds == 0) continue;
    select->asked[s].resize(set_words(nfds));
    TRY(task.copy_in(sets[s], select->asked[s].data(), set_words(nfds) * 8));
  }
  for (int fd = 0; fd < nfds; fd++) {
    uint32_t mask = 0;
    for (size_t s = 0; s < 3; s++) {
      if (bit(select->asked[s], fd)) mask |= kSets[s];
    }
    if (!mask) continue;
    auto file = pollable(task, fd);
    if (!file) return Err(EBADF);
    select->poll.entries.push_back(
        {.fd = fd, .mask = mask, .found = 0, .before = 0, .file = std::move(file)});
  }
  task.call().data = std::move(select);
  return 0;
}

Result<int64_t> run_select(Task& task, int nfds, const std::array<UserInOut, 3>& sets) {
  auto& select = static_cast<SelectCall&>(*task.call().data);
  if (look(select.poll) == 0) {
    auto result = wait(task, select.poll, kRestartNoHand);
    if (!result) return result;
  }
  int64_t bits = 0;
  for (size_t s = 0; s < 3; s++) {
    if (select.asked[s].empty()) continue;
    std::vector<uint64_t> out(set_words(nfds));
    for (const auto& e : select.poll.entries) {
      if (!(e.found & kSets[s]) || !bit(select.asked[s], e.fd)) continue;
      out[static_cast<size_t>(e.fd) / 64] |= uint64_t{1} << (e.fd % 64);
      bits++;
    }
    TRY(task.copy_out(sets[s], out.data(), out.size() * 8));
  }
  return bits;
}

// `timeout_ns`: none waits for ever.
Result<int64_t> do_select(Task& task, int nfds, const std::array<UserInOut, 3>& sets,
                          std::optional<int64_t> timeout_ns) {
  if (nfds < 0) return Err(EINVAL);
  if (!task.call().data) {
    nfds = clamp_nfds(task, nfds);
    if (auto r = start_select(task, nfds, sets); !r) return r;
    if (timeout_ns)
      set_timeout(task, static_cast<SelectCall&>(*task.call().data).poll, *timeout_ns);
  } else {
    // The table may have grown since: keep to the sets that were read.
    auto& asked = static_cast<SelectCall&>(*task.call().data).asked;
    const size_t words = std::max({asked[0].size(), asked[1].size(), asked[2].size()});
    nfds = std::min(nfds, static_cast<int>(words * 64));
  }
  return finish(task, run_select(task, nfds, sets));
}

}  // namespace

Result<int64_t> sys_poll(Task& task, UserInOut fds, uint32_t nfds, int timeout_ms) {
  if (!task.call().data) {
    TRY(start_poll(task, fds, nfds));
    if (timeout_ms >= 0) {
      set_timeout(task, static_cast<PollCall&>(*task.call().data), int64_t{timeout_ms} * 1'000'000);
    }
  }
  return finish(task, run_poll(task, fds, kRestartBlock));
}

Result<int64_t> sys_ppoll(Task& task, UserInOut fds, uint32_t nfds, UserInOut timeout,
                          UserIn sigmask, uint64_t sigsetsize) {
  std::optional<timespec> wanted;
  if (timeout && !task.call().data) wanted = TRY(copy_in_timespec(task, timeout));
  TRY(enter_wait_mask(task, sigmask, sigsetsize));
  if (!task.call().data) {
    if (auto r = start_poll(task, fds, nfds); !r) return leave_wait_mask(task, r);
    if (wanted) set_timeout(task, static_cast<PollCall&>(*task.call().data), to_ns(*wanted));
  }
  const bool zero = static_cast<PollCall&>(*task.call().data).zero_timeout;
  auto result = finish(task, run_poll(task, fds, kRestartNoHand));
  // A time-out that cannot be written back is not an error (poll_select_finish()).
  if (timeout && !zero && !task.call().data)
    (void)task.copy_out(timeout, to_timespec(remaining_ns(task)));
  return leave_wait_mask(task, result);
}

Result<int64_t> sys_select(Task& task, int nfds, UserInOut readfds, UserInOut writefds,
                           UserInOut exceptfds, UserAddr timeout) {
  std::optional<int64_t> ns;
  if (timeout && !task.call().data) {
    const auto tv = TRY(task.copy_in<timeval>(timeout));
    // Microseconds beyond a second are carried over (kern_select()).
    timespec ts{.tv_sec = tv.tv_sec + tv.tv_usec / 1'000'000,
                .tv_nsec = tv.tv_usec % 1'000'000 * 1000};
    if (!is_valid(ts)) return Err(EINVAL);
    ns = to_ns(ts);
  }
  auto result = do_select(task, nfds, {readfds, writefds, exceptfds}, ns);
  if (timeout && !task.call().data && task.call().deadline && !(ns && *ns == 0)) {
    const int64_t left = remaining_ns(task);
    const timeval tv{.tv_sec = left / kNsPerSecond, .tv_usec = left % kNsPerSecond / 1000};
    (void)task.copy_out(timeout, tv);
  }
  return result;
}

Result<int64_t> sys_pselect6(Task& task, int nfds, UserInOut readfds, UserInOut writefds,
                             UserInOut exceptfds, UserAddr timeout, UserAddr sigmask) {
  struct MaskArg {
    uint64_t mask;
    uint64_t size;
  } mask{};
  if (sigmask) mask = TRY(task.copy_in<MaskArg>(sigmask));
  std::optional<int64_t> ns;
  if (timeout && !task.call().data) ns = to_ns(TRY(copy_in_timespec(task, timeout)));
  TRY(enter_wait_mask(task, UserAddr{mask.mask}, mask.size));
  auto result = do_select(task, nfds, {readfds, writefds, exceptfds}, ns);
  if (timeout && !task.call().data && task.call().deadline && !(ns && *ns == 0)) {
    (void)task.copy_out(timeout, to_timespec(remaining_ns(task)));
  }
  return leave_wait_mask(task, result);
}

}  // namespace uks
