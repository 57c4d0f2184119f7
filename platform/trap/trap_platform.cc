#include "platform/trap/trap_platform.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <ctime>

#include "platform/base/check.h"
#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "platform/channel/shared_cell.h"

namespace uks {
namespace {

// At most this many pids are remembered that died before anybody named them.
constexpr size_t kMaxDeadUnheard = 4096;
// A host process that was cloned says hello within this; a stub takes some 0.1 ms.
constexpr int64_t kHelloPatienceMs = 10'000;
// Processes, with those that may exist uncounted.
constexpr size_t kMaxProcesses = 4096;

int64_t now_ms() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1000 + ts.tv_nsec / 1'000'000;
}

int64_t monotonic_ns() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace

TrapPlatform::TrapPlatform(Mutex& kernel_lock, keeper::Channel& keeper, const StubLayout& layout,
                           std::vector<StubFamily> families)
    : lock_(kernel_lock), keeper_(keeper), layout_(layout) {
  for (auto& [zygote, notifier] : families) {
    auto shard = std::make_unique<Shard>(std::move(notifier));
    auto mm = make_ref<AddressSpace>(keeper_, layout_, static_cast<unsigned>(shards_.size()));
    mm->by_order = this;
    mm->window = std::move(zygote.window);
    mm->host_pid = zygote.pid;
    mm->take_slot(0);
    shard->zygote = new_thread(mm, 0);
    shard->zygote->host_tid = zygote.pid;
    by_tid_[zygote.pid] = shard->zygote;
    by_pid_[zygote.pid] = mm;
    shard->zygote_mm = std::move(mm);
    shards_.push_back(std::move(shard));
  }
}

TrapPlatform::~TrapPlatform() = default;

Result<void> TrapPlatform::start(PlatformClient& client, unsigned pool_size) {
  client_ = &client;
  full_pool_ = pool_size;
  for (auto& shard : shards_) {
    const std::lock_guard role(shard->role_mutex);
    for (unsigned i = 0; i < kFirstWorkers; i++) {
      if (!add_worker(*shard)) return Err(EAGAIN);
    }
  }
  TRY(start_thread([this] { watch(); }));
  for (auto& shard : shards_) traced_ |= shard->notifier->traces();
  return start_thread([this] { reap(); });
}

GuestThread* TrapPlatform::new_thread(const Ref<AddressSpace>& mm, unsigned index) {
  mm->threads.push_back(make_ref<GuestThread>(mm, index));
  return mm->threads.back().get();
}

uint64_t TrapPlatform::new_token() {
  uint64_t token = 0;
  while (token == 0) CHECK(getrandom(&token, sizeof token, 0) == sizeof token);
  return token;
}

// ---- Threads that serve

thread_local TrapPlatform::Worker TrapPlatform::current_worker_;

bool TrapPlatform::add_worker(Shard& shard) {
  if (shard.refused_at != 0 && monotonic_ns() - shard.refused_at < kRefusalLasts) return false;
  const unsigned index = shard.workers;
  if (!start_thread([this, &shard, index] { work(shard, index); })) {
    if (shard.refused_at == 0 && shard.workers >= kFirstWorkers)
      LOG_WARN("the host refuses more threads: {} of {} workers serve", shard.workers, kWorkers);
    shard.refused_at = monotonic_ns();
    return false;
  }
  shard.workers++;
  shard.refused_at = 0;
  return true;
}

void TrapPlatform::make_all_workers() {
  if (std::exchange(all_workers_, true)) return;
  for (auto& shard : shards_) {
    const std::lock_guard role(shard->role_mutex);
    while (shard->workers < kWorkers && add_worker(*shard)) {
    }
  }
}

void TrapPlatform::work(Shard& shard, unsigned index) {
  current_worker_ = {&shard, index};
  for (;;) {
    bool errand = false;
    {
      std::unique_lock role(shard.role_mutex);
      shard.busy[index] = false;
      shard.wake.at(index).wait(role, [&] {
        return shard.receiver == index || shard.receiver == kNobody || shard.errand;
      });
      if (shard.receiver != index) {
        errand = std::exchange(shard.errand, false);
        if (!errand) {
          shard.receiver = index;
        } else if (shard.receiver == kNobody) {  // it may have been woken for that
          shard.busy[index] = true;
          wake(shard, idle_worker(shard));
        }
      }
      shard.busy[index] = errand;
    }
    if (errand) {
      lock_.lock();
      unlock_and_flush();
      shard.blocked_since[index].store(0, std::memory_order_relaxed);
      continue;
    }
    auto n = shard.notifier->receive();
    if (!n) {
      if (n.error() == EINTR || n.error() == ENOENT) continue;
      const MutexLock lock(lock_);
      client_->on_fatal("a seccomp listener failed");
      return;
    }
    {
      const std::lock_guard role(shard.role_mutex);
      shard.busy[index] = true;
    }
    lock_.lock();
    handle(shard, *n);
    unlock_and_flush();
    shard.blocked_since[index].store(0, std::memory_order_relaxed);
  }
}

void TrapPlatform::unlock_to_block() {
  Shard* const shard = current_worker_.shard;
  if (!shard) others_away_++;
  if (shard) {
    const int64_t now = monotonic_ns();
    // From the first time in this hand-off: a handler that drops the lock again and again, for
    // moments, keeps its shard waiting just as well.
    auto& since = shard->blocked_since[current_worker_.index];
    if (since.load(std::memory_order_relaxed) == 0) since.store(now, std::memory_order_relaxed);
    last_block_.store(now, std::memory_order_relaxed);
    // The watcher sleeps while nothing blocks: one wake-up for a burst of host calls.
    if (!watching_.exchange(true)) {
      const std::lock_guard watch(watch_mutex_);
      watch_changed_.notify_one();
    }
  }
  unlock_and_send();
}

void TrapPlatform::lock_again() {
  lock_.lock();
  if (!current_worker_.shard) others_away_--;
}

unsigned TrapPlatform::idle_worker(Shard& shard) {
  unsigned promised = (shard.errand ? 1 : 0) + (shard.receiver == kNobody ? 1 : 0);
  for (unsigned i = 0; i < shard.workers; i++) {
    if (!shard.busy[i] && i != shard.receiver && promised-- == 0) return i;
  }
  if (shard.workers == kWorkers || !add_worker(shard)) return kNobody;
  return shard.workers - 1;
}

void TrapPlatform::wake(Shard& shard, unsigned worker) {
  if (worker != kNobody) shard.wake.at(worker).notify_one();
}

void TrapPlatform::give_role_away(Shard& shard) {
  const unsigned idle = idle_worker(shard);
  if (idle == kNobody) return;
  // Not to that one: a thread that has to be woken may have to wait for a processor, and whoever
  // is done before it goes on receiving.
  shard.receiver = kNobody;
  wake(shard, idle);
}

void TrapPlatform::let_another_receive() {
  Shard* const shard = current_worker_.shard;
  if (!shard || shard->receiver != current_worker_.index) return;
  const std::lock_guard role(shard->role_mutex);
  give_role_away(*shard);
}

bool TrapPlatform::is_last_of_its_kind() {
  Shard* const shard = current_worker_.shard;
  if (!shard) return others_away_ > 0;
  if (shard->receiver != current_worker_.index) return false;
  const std::lock_guard role(shard->role_mutex);
  return idle_worker(*shard) == kNobody;
}

bool TrapPlatform::should_run_handlers() {
  if (current_worker_.shard || others_away_ == 0) return true;
  for (auto& shard : shards_) {
    const std::lock_guard role(shard->role_mutex);
    const unsigned idle = idle_worker(*shard);
    if (idle == kNobody) continue;
    shard->errand = true;
    wake(*shard, idle);
    return false;
  }
  return true;
}

bool TrapPlatform::blocked_lately() const {
  return monotonic_ns() - last_block_.load(std::memory_order_relaxed) < kWatchAfterwards;
}

void TrapPlatform::watch() {
  for (;;) {
    {
      std::unique_lock watch(watch_mutex_);
      watch_changed_.wait(watch, [&] { return watching_.load(); });
    }
    while (blocked_lately()) {
      timespec pause{0, kPatience};
      nanosleep(&pause, nullptr);
      for (auto& shard : shards_) {
        const std::lock_guard role(shard->role_mutex);
        if (shard->receiver == kNobody) continue;
        const int64_t since =
            shard->blocked_since.at(shard->receiver).load(std::memory_order_relaxed);
        if (since == 0 || monotonic_ns() - since < kPatience) continue;
        last_block_.store(monotonic_ns(), std::memory_order_relaxed);  // as long as it lasts
        give_role_away(*shard);
      }
    }
    // A worker that blocks here still sees a watcher and wakes nobody: look again. The exchange
    // makes its last_block_ visible.
    watching_.exchange(false);
    if (blocked_lately()) watching_ = true;
  }
}

void TrapPlatform::reap() {
  // All shards' children are this process's.
  Notifier& notifier = *shards_[0]->notifier;
  // No children are left: the zygotes are gone, and on_fatal has been called.
  while (const pid_t pid = notifier.wait_for_death()) {
    reap(notifier, pid);
  }
}

void TrapPlatform::reap(Notifier& notifier, pid_t pid) {
  siginfo_t info{};
  lock_.lock();
  const bool process = is_child(pid);
  notifier.forget(pid);
  (void)waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | __WALL);
  notifier.reaped(pid);
  if (process) process_died(pid);
  unlock_and_flush();
}

void TrapPlatform::unlock_and_flush() {
  client_->run_pending();
  // Who was woken for a stub may have ended since, or have been woken for two.
  for (size_t n = pool_.size(); n > 0 && client_->awaits_stub(); n--) {
    client_->on_pool_refilled();
    client_->run_pending();
  }
  refill();
  unlock_and_send();
}

void TrapPlatform::unlock_and_send() {
  std::vector<Outgoing> batch;
  batch.swap(outgoing_);
  lock_.unlock();
  for (Outgoing& out : batch) {
    // ENOENT: the thread died meanwhile; the reaper tells the kernel.
    if (out.copy) {
      say_turn(*out.copy, out.turn);
    } else if (out.approve) {
      (void)out.notifier->approve(out.id);
    } else if (out.fd >= 0) {
      if (const auto sent = out.notifier->reply_with_fd(out.id, out.fd, out.number, out.landing);
          !sent && sent.error() != ENOENT) {
        LOG_WARN_LIMITED("handing over a descriptor failed: errno {}", sent.error().value);
        (void)out.notifier->reply(out.id, -ENOSYS);
      }
    } else {
      (void)out.notifier->reply(out.id, 0);
    }
  }
}

// ---- Replies

void TrapPlatform::write_reply(GuestThread& thread, const Reply& reply) {
  uks_slot* slot = thread.slot();
  store(slot->order_count, thread.order_count());
  store(slot->flags, reply.flags);
  store(slot->ret, reply.ret);
  // The action comes last: who has taken the thread may be sending it to copy (send_answer).
}

void TrapPlatform::reply(GuestThread& thread, Reply reply) {
  CHECK(thread.in_sentry);
  write_reply(thread, reply);
  thread.in_sentry = false;
  Outgoing out{&notifier_of(thread),
               thread.notification,
               false,
               reply.donated.get(),
               UKS_FIRST_FD + static_cast<int>(thread.index()),
               0,
               std::move(reply.donated),
               {}};
  out.action = reply.action;
  // The first answer to a new process, whenever it comes, brings its window; the slot is filled by
  // now.
  if (std::exchange(thread.awaits_window, false)) {
    out.fd = thread.mm().window.fd();
    out.mm = Ref<AddressSpace>(&thread.mm());
  } else if (out.fd >= 0 && traced_) {
    out.landing = layout_.base + UKS_STUB_WINDOW + uint64_t{thread.index()} * UKS_SLOT_SIZE +
                  offsetof(uks_slot, landing);
    out.notifier->prepare(thread.slot()->landing, out.landing);
  }
  if (thread.taken) {
    held_.insert_or_assign(&thread, std::move(out));
  } else {
    send_answer(thread, std::move(out));
  }
}

void TrapPlatform::forget(GuestThread* thread) {
  if (const auto it = by_tid_.find(thread->host_tid); it != by_tid_.end() && it->second == thread)
    by_tid_.erase(it);
  std::erase(pool_, thread);
  held_.erase(thread);
  AddressSpace& mm = thread->mm();
  const Ref<AddressSpace> keep(&mm);
  thread->gone = true;
  thread->in_sentry = false;
  mm.free_slot(thread->index());
  std::erase_if(mm.threads, [&](const auto& t) { return t.get() == thread; });
}

void TrapPlatform::end_thread(GuestThread* thread) {
  thread->task = nullptr;
  if (thread->host_tid == 0) return;  // not heard of yet: ended at its hello
  if (thread->host_tid == thread->mm().host_pid)
    thread->mm().request_memory();  // others live on in it
  if (!thread->in_sentry) {
    kick(*thread);
    return;
  }
  thread->clear_data();
  Reply reply;
  reply.action = UKS_ACTION_EXIT;
  this->reply(*thread, std::move(reply));
  thread->leaving = thread->taken;
  if (!thread->leaving) forget(thread);
}

void TrapPlatform::end_process(AddressSpace& mm) {
  if (mm.gone) return;
  for (auto& thread : mm.threads) {
    if (thread->in_sentry) {
      thread->clear_data();
      Reply reply;
      reply.action = UKS_ACTION_EXIT_GROUP;
      this->reply(*thread, std::move(reply));
      break;
    }
  }
  // Not left to the stub's good will: the keeper kills what is still there. A process that has not
  // said hello yet is told to exit when it does (its threads have no task).
  if (mm.host_pid != 0) {
    keeper_.send(keeper::Op::kKill, mm.host_pid);
  } else {
    suspect_stray();
  }
}

bool TrapPlatform::holders_are_ending() const {
  return std::any_of(by_pid_.begin(), by_pid_.end(), [](const auto& entry) {
    const AddressSpace& mm = *entry.second;
    return mm.users == 0 && mm.holds_any() && !mm.gone;
  });
}

Result<GuestThread*> TrapPlatform::clone(GuestThread& parent, const ClonePlan& plan) {
  if (!parent.in_sentry || parent.gone) return Err(EAGAIN);  // a zygote that was killed
  Ref<AddressSpace> mm(&parent.mm());
  if (!plan.same_memory) {
    if (process_count() + suspects_ >= kMaxProcesses) return Err(EAGAIN);
    if (parent.task) {
      forked_ = true;
      pool_size_ = full_pool_;
    }
    if (process_count() >= kManyProcesses) make_all_workers();
    mm = make_ref<AddressSpace>(keeper_, layout_, parent.mm().shard());
    mm->by_order = this;
    mm->window = TRY(Window::create());
    mm->has_shared_memory = parent.mm().has_shared_memory;
    mm->inherit_held(parent.mm());
    mm->brk_start = parent.mm().brk_start;
    mm->stack_top = parent.mm().stack_top;
    mm->stack_size = parent.mm().stack_size;
    mm->code_start = parent.mm().code_start;
    mm->code_end = parent.mm().code_end;
    mm->arg_start = parent.mm().arg_start;
    mm->arg_end = parent.mm().arg_end;
    mm->env_start = parent.mm().env_start;
    mm->env_end = parent.mm().env_end;
    // The child goes on in its parent's area: same index. The areas of its parent's other threads
    // are free in it.
    mm->take_slot(parent.index());
  }
  const unsigned index = plan.same_memory ? TRY(mm->allocate_slot()) : parent.index();
  GuestThread* child = new_thread(mm, index);
  child->token = new_token();
  child->ordered_ms = now_ms();
  awaited_[child->token] = child;

  const uint64_t base = layout_.base;
  uint64_t flags = plan.set_tls ? CLONE_SETTLS : 0;
  uint64_t stack = 0;
  uint64_t alive = 0;
  if (plan.same_memory) {
    flags |= CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
             CLONE_CHILD_CLEARTID;
    stack = base + UKS_STUB_AREAS + uint64_t{index} * UKS_AREA_SIZE + UKS_AREA_STACK_TOP - 16;
    alive = base + UKS_STUB_WINDOW + uint64_t{index} * UKS_SLOT_SIZE + offsetof(uks_slot, alive);
    store(child->slot()->alive, 1);
  } else {
    flags |= CLONE_PARENT | SIGCHLD;
    store(child->slot()->alive, 1);  // its first area is never used again
  }
  parent.clone_args = {flags, stack, 0, alive, plan.tls, 0};
  parent.clone_approved = true;
  parent.clone_ordered = true;
  parent.link_child(*child);
  parent.cloned_pid = 0;
  client_->sweep_later(kHelloPatienceMs);
  uks_slot* slot = parent.slot();
  for (size_t i = 0; i < 6; i++) store(slot->clone_args[i], parent.clone_args[i]);
  store(slot->token, child->token);
  store(slot->child_slot, index);
  store(slot->enter_sp, plan.stack);
  parent.clear_data();
  return child;
}

void TrapPlatform::order_clone(GuestThread& parent) {
  Reply reply;
  reply.action = UKS_ACTION_CLONE;
  this->reply(parent, std::move(reply));
}

void TrapPlatform::abandon_child(GuestThread* child) {
  if (child->mm().host_pid == 0) suspect_stray();
  std::erase_if(awaited_, [&](const auto& entry) { return entry.second == child; });
  std::erase_if(unheard_, [&](const auto& entry) { return entry.second == child; });
  store(child->slot()->alive, 0);
  forget(child);
}

GuestThread* TrapPlatform::take_stub() {
  while (!pool_.empty()) {
    GuestThread* thread = pool_.front();
    pool_.pop_front();
    if (thread->mm().gone) continue;
    if (!forked_) pool_size_ = 0;
    taken_ = true;
    return thread;
  }
  pool_size_ = std::max(pool_size_, 1u);
  return nullptr;
}

void TrapPlatform::kick(GuestThread& thread) {
  if (thread.in_sentry || thread.kicked || thread.host_tid == 0 || thread.mm().gone) return;
  thread.kicked = true;
  // The only signal the filter lets through, and the only call that could name a bystander:
  // harmless.
  (void)syscall(SYS_tgkill, thread.mm().host_pid, thread.host_tid, SIGURG);
}

void TrapPlatform::freeze(AddressSpace& mm) {
  mm.frozen = true;
  keeper_.send(keeper::Op::kKill, mm.host_pid, SIGSTOP);
}

void TrapPlatform::thaw(AddressSpace& mm) {
  mm.frozen = false;
  for (const auto& thread : mm.threads) thread->ordered_ms = now_ms();
  if (!mm.gone) keeper_.send(keeper::Op::kKill, mm.host_pid, SIGCONT);
}

// ---- The pool

void TrapPlatform::refill() {
  // Whoever takes the last stub may say that no more are needed: others may wait for theirs.
  const size_t wanted = client_->awaits_stub() ? std::max(pool_size_, full_pool_) : pool_size_;
  if (pool_.size() + in_the_making_ >= wanted || now_ms() < refill_after_ms_) return;
  for (size_t tried = 0; tried < shards_.size() && pool_.size() + in_the_making_ < wanted;
       tried++) {
    // In turn, or all processes but the first few would share one listener.
    Shard& shard = *shards_[next_shard_];
    next_shard_ = (next_shard_ + 1) % shards_.size();
    if (!shard.zygote_idle) continue;
    // A zygote that waits answers at once; its child makes itself ready off the critical path.
    shard.zygote_idle = false;
    auto child = clone(*shard.zygote, {});
    if (!child) {
      // Without a first one the sandbox does not start, and says so.
      if (taken_) LOG_WARN_LIMITED("no fresh stub process: errno {}", child.error().value);
      shard.zygote_idle = true;
      return;
    }
    in_the_making_++;
    order_clone(*shard.zygote);
    // A pool stub is known by this mark until it is ready; the hello's token lives in `awaited_`.
    (*child)->token = 1;
  }
}

// The host has no room for processes: not again and again, as fast as it goes.
void TrapPlatform::pause_refill() {
  constexpr int64_t kPause = 10;
  refill_after_ms_ = now_ms() + kPause;
  client_->sweep_later(kPause + 1);
}

// ---- Strays

void TrapPlatform::suspect_stray() {
  suspects_++;
  client_->sweep_later(1000);
}

void TrapPlatform::end_silent_threads() {
  const int64_t now = now_ms();
  std::vector<Ref<AddressSpace>> liars;
  bool any = false;
  for (const auto& [token, thread] : awaited_) {
    AddressSpace& mm = thread->mm();
    if (mm.host_pid == 0 || mm.gone) continue;  // a process: see below
    any = true;
    if (!mm.frozen && now - thread->ordered_ms >= kHelloPatienceMs) liars.emplace_back(&mm);
  }
  for (const auto& mm : liars) {
    LOG_WARN_LIMITED("a thread of host process {} says nothing; its process is ended",
                     mm->host_pid);
    end_process(*mm);
  }
  if (any) client_->sweep_later(kHelloPatienceMs / 4);
}

void TrapPlatform::sweep() {
  end_silent_threads();
  // Without that file (a kernel without CONFIG_PROC_CHILDREN) suspects stay suspects, and count.
  const auto text = keeper_.open(keeper::Op::kOpenMaps, getpid(), "children");
  std::map<pid_t, int64_t> strangers;
  if (text) {
    std::string numbers;
    char buffer[4096];
    ssize_t n;
    while ((n = read(text->get(), buffer, sizeof buffer)) > 0)
      numbers.append(buffer, static_cast<size_t>(n));
    const int64_t now = now_ms();
    const char* at = numbers.c_str();
    for (char* end = nullptr;; at = end) {
      const auto pid = static_cast<pid_t>(strtol(at, &end, 10));
      if (end == at) break;
      if (by_pid_.contains(pid)) continue;
      const auto seen = strangers_.find(pid);
      const int64_t since = seen == strangers_.end() ? now : seen->second;
      strangers[pid] = since;
      if (now - since >= kHelloPatienceMs) {
        LOG_WARN_LIMITED("host process {} was cloned and says nothing; it is killed", pid);
        keeper_.send(keeper::Op::kKill, pid);
      }
    }
    suspects_ = std::min<unsigned>(suspects_, static_cast<unsigned>(strangers.size()));
    if (strangers.empty()) sweeps_++;
  }
  strangers_ = std::move(strangers);
  if (!strangers_.empty() || suspects_ > 0) client_->sweep_later(2000);
}

// ---- Death

void TrapPlatform::process_died(pid_t pid) {
  for (auto& shard : shards_) {
    if (shard->zygote_mm->host_pid != pid) continue;
    shard->zygote_idle =
        false;  // its thread goes below: nobody is to ask it for stubs until the sandbox has ended
    client_->on_fatal("a zygote died");
  }
  const auto it = by_pid_.find(pid);
  if (it == by_pid_.end()) {
    if (const auto child = unheard_.find(pid); child != unheard_.end()) {
      GuestThread* thread = child->second;
      unheard_.erase(child);
      child_vanished(thread);
      return;
    }
    // The oldest is forgotten: a guest that fills the list must not make liars of those who report
    // later.
    if (dead_unheard_.size() >= kMaxDeadUnheard) dead_unheard_.erase(dead_unheard_.begin());
    dead_unheard_.push_back(pid);
    return;
  }
  const Ref<AddressSpace> mm = it->second;
  by_pid_.erase(it);
  mm->gone = true;
  memory_is_gone(*mm);
  while (!mm->threads.empty()) {
    const Ref<GuestThread> keep = mm->threads.back();
    GuestThread* thread = keep.get();
    thread->gone = true;
    thread->dead = true;
    thread->in_sentry = false;
    held_.erase(thread);
    if (thread->token == 1) in_the_making_--;
    // A child process that was ordered, never said hello, and now has nobody to report it.
    if (GuestThread* child = thread->clone_child; child && &child->mm() != mm.get())
      child_vanished(child);
    std::erase_if(awaited_, [&](const auto& entry) { return entry.second == thread; });
    if (thread->task) client_->on_gone(*thread);
    if (const auto known = by_tid_.find(thread->host_tid);
        known != by_tid_.end() && known->second == thread) {
      by_tid_.erase(known);
    }
    std::erase(pool_, thread);
    std::erase(mm->threads, keep);
  }
}

}  // namespace uks
