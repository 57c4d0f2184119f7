// poll, ppoll, select and pselect6.
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "gen/syscalls.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/time/clock.h"
#include "sentry/usermem/memory_access.h"
#include "sentry/vfs/fd_table.h"
#include "syscalls/wait_mask.h"

namespace uks {
namespace {

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLPRI == EPOLLPRI &&
              POLLERR == EPOLLERR && POLLHUP == EPOLLHUP && POLLRDNORM == EPOLLRDNORM &&
              POLLRDHUP == EPOLLRDHUP);

// Entries of all waiting calls together: each costs some 150 bytes with its place in a wait queue.
// ENOMEM.
constexpr size_t kMaxEntriesInAll = size_t{1} << 20;
constexpr size_t kMaxExempt = 64;  // a call of up to this many is not counted
size_t entries_in_all = 0;         // under the kernel lock
// So many files are looked at before others may have the kernel lock.
constexpr size_t kEntriesAtOnce = 4096;

struct PollCall;

// Tells a call with very many files that one of them became ready. Unlike what block() arms it is
// there while the files are looked at, with the lock dropped in between.
struct BigWaiter final : Waiter {
  BigWaiter(Task& t, PollCall& c) : task(t), call(c) {}
  void on_wake(uint32_t) override;
  Task& task;
  PollCall& call;
  uint32_t events = 0;
};

// What a call watches; read from the guest once, and the descriptions stay open while it waits.
struct PollCall final : CallData {
  PollCall() = default;
  ~PollCall() override { entries_in_all -= counted; }
  Result<void> count_entries(size_t n) {
    if (n <= kMaxExempt) return {};
    if (n > kMaxEntriesInAll - entries_in_all) return Err(ENOMEM);
    entries_in_all += n;
    counted = n;
    return {};
  }
  bool is_big() const { return entries.size() > kEntriesAtOnce; }
  size_t counted = 0;
  std::unordered_map<WaitQueue*, BigWaiter> waiters;  // of a big call; one for each queue
  bool touched = false;                               // one of them was told something
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

void BigWaiter::on_wake(uint32_t) {
  call.touched = true;
  task.wake();
}

Ref<File> pollable(Task& task, int fd) {
  auto file = task.fds().get_io(fd);
  return file ? *file : nullptr;
}

// Looks at every file; returns how many entries have something.
int64_t look_once(Task& task, PollCall& poll, bool yields) {
  int64_t count = 0;
  size_t looked = 0;
  for (auto& e : poll.entries) {
    if (yields && ++looked % kEntriesAtOnce == 0) yield_kernel_lock();
    if (e.file) e.found = e.file->poll_events_for(task) & e.mask;
    if (e.found) count++;
  }
  return count;
}

void watch(Task& task, PollCall& poll) {
  size_t added = 0;
  for (auto& e : poll.entries) {
    if (++added % kEntriesAtOnce == 0) yield_kernel_lock();
    WaitQueue* queue = e.file ? e.file->wait_queue_for(task) : nullptr;
    if (!queue) continue;
    BigWaiter& waiter = poll.waiters.try_emplace(queue, task, poll).first->second;
    if ((waiter.events | e.mask) == waiter.events) continue;
    waiter.events |= e.mask;
    queue->add(waiter, waiter.events);
  }
}

int64_t look(Task& task, PollCall& poll) {
  if (!poll.is_big()) return look_once(task, poll, false);
  if (poll.zero_timeout) return look_once(task, poll, true);
  if (poll.waiters.empty()) watch(task, poll);
  constexpr int kTries = 4;  // while others keep making files ready and unready
  for (int i = 0; i < kTries; i++) {
    poll.touched = false;
    if (const int64_t count = look_once(task, poll, true)) return count;
    if (!poll.touched) return 0;
  }
  return look_once(task, poll, false);
}

// Where to wait for each file; entries of one file share a place.
std::vector<WaitOn> wait_list(Task& task, const PollCall& poll) {
  std::vector<WaitOn> queues;
  queues.reserve(poll.entries.size());
  for (const auto& e : poll.entries) {
    WaitQueue* queue = e.file ? e.file->wait_queue_for(task) : nullptr;
    if (queue) queues.push_back({queue, e.mask});
  }
  constexpr size_t kFew = 16;
  if (queues.size() <= kFew) return queues;
  std::ranges::sort(queues, {}, &WaitOn::queue);
  size_t kept = 0;
  for (const WaitOn& q : queues) {
    if (kept > 0 && queues[kept - 1].queue == q.queue) {
      queues[kept - 1].events |= q.events;
    } else {
      queues[kept++] = q;
    }
  }
  queues.resize(kept);
  return queues;
}

// Nothing was found: 0 when the time is over, else a wait. A pending signal counts even with a zero
// time-out (do_poll(), core_sys_select()).
Result<int64_t> wait(Task& task, PollCall& poll, int interrupted) {
  CallState& call = task.call();
  if (task.has_deliverable_signal()) return Err(interrupted);
  if (call.timed_out || poll.zero_timeout) return 0;
  return Err(task.block(poll.is_big() ? std::vector<WaitOn>() : wait_list(task, poll),
                        call.deadline, interrupted));
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
  TRY(poll->count_entries(nfds));
  std::vector<pollfd> list(nfds);
  if (nfds) TRY(task.copy_in(fds, list.data(), nfds * sizeof(pollfd)));
  poll->entries.reserve(nfds);
  for (const auto& p : list) {
    if ((poll->entries.size() + 1) % kEntriesAtOnce == 0) yield_kernel_lock();
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

// Only revents is the kernel's to write, but always.
Result<void> tell_revents(Task& task, UserAddr fds, const PollCall& poll) {
  const auto word = [&](size_t i) { return static_cast<int16_t>(poll.entries[i].found); };
  const size_t n = poll.entries.size();
  if (n == 0) return {};
  if (n == 1) return task.copy_out(fds + offsetof(pollfd, revents), word(0));
  GuestThread* thread = task.thread.get();
  if (thread && thread->has_order_room() && n * sizeof(int16_t) <= thread->data_room()) {
    uks_order order{};
    order.op = UKS_ORDER_SCATTER;
    order.addr = fds.value + offsetof(pollfd, revents);
    order.flags = sizeof(pollfd);
    order.length = n;
    char* to = thread->reserve_data(n * sizeof(int16_t), &order.offset);
    for (size_t i = 0; i < n; i++) {
      const int16_t revents = word(i);
      memcpy(to + i * sizeof revents, &revents, sizeof revents);
    }
    thread->add_order(order);
    return {};
  }
  return with_memory(task, [&](MemoryAccess& memory) -> Result<void> {
    for (size_t i = 0; i < n; i++) {
      const int16_t revents = word(i);
      if (revents == poll.entries[i].before) continue;
      TRY(memory.write(fds + i * sizeof(pollfd) + offsetof(pollfd, revents), &revents,
                       sizeof revents));
    }
    return {};
  });
}

Result<int64_t> run_poll(Task& task, UserAddr fds, int interrupted) {
  auto& poll = static_cast<PollCall&>(*task.call().data);
  const int64_t count = look(task, poll);
  if (count == 0) {
    auto result = wait(task, poll, interrupted);
    if (!result) return result;
  }
  TRY(tell_revents(task, fds, poll));
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

size_t set_words(int nfds) { return (static_cast<size_t>(nfds) + 63) / 64; }

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
  TRY(select->poll.count_entries(select->poll.entries.size()));
  task.call().data = std::move(select);
  return 0;
}

Result<int64_t> run_select(Task& task, int nfds, const std::array<UserInOut, 3>& sets) {
  auto& select = static_cast<SelectCall&>(*task.call().data);
  if (look(task, select.poll) == 0) {
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
