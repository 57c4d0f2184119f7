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

#include "platform/base/check.h"
#include "platform/base/log.h"
#include "platform/channel/shared_cell.h"

namespace uks {
namespace {

// At most this many pids are remembered that died before anybody named them.
constexpr size_t kMaxDeadUnheard = 4096;

int64_t monotonic_ns() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace

Platform::Platform(Mutex& kernel_lock, keeper::Channel& keeper, const StubLayout& layout,
                   std::vector<Zygote> zygotes)
    : lock_(kernel_lock), keeper_(keeper), layout_(layout) {
  for (Zygote& zygote : zygotes) {
    auto shard = std::make_unique<Shard>(std::move(zygote.listener));
    auto mm = make_ref<AddressSpace>(keeper_, layout_, static_cast<unsigned>(shards_.size()));
    mm->window = std::move(zygote.window);
    mm->host_pid = zygote.pid;
    (void)mm->allocate_slot();
    shard->zygote = new_thread(mm, 0);
    shard->zygote->host_tid = zygote.pid;
    by_tid_[zygote.pid] = shard->zygote;
    by_pid_[zygote.pid] = mm;
    shard->zygote_mm = std::move(mm);
    shards_.push_back(std::move(shard));
  }
}

Platform::~Platform() = default;

void Platform::start(PlatformClient& client, unsigned pool_size) {
  client_ = &client;
  pool_size_ = pool_size;
  for (auto& shard : shards_) {
    for (unsigned i = 0; i < kWorkers; i++) shard->workers[i] = std::thread([this, &shard, i] { work(*shard, i); });
  }
  watcher_ = std::thread([this] { watch(); });
  reaper_ = std::thread([this] { reap(); });
}

GuestThread* Platform::new_thread(const Ref<AddressSpace>& mm, unsigned index) {
  mm->threads.push_back(make_ref<GuestThread>(mm, index));
  return mm->threads.back().get();
}

uint64_t Platform::new_token() {
  uint64_t token = 0;
  while (token == 0) CHECK(getrandom(&token, sizeof token, 0) == sizeof token);
  return token;
}

// ---- Threads that serve

thread_local Platform::Worker Platform::current_worker_;

void Platform::work(Shard& shard, unsigned index) {
  current_worker_ = {&shard, index};
  for (;;) {
    {
      std::unique_lock role(shard.role_mutex);
      shard.busy[index] = false;
      shard.role_changed.wait(role, [&] { return shard.receiver == index; });
    }
    auto n = shard.notifier.receive();
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
  }
}

void Platform::unlock_to_block() {
  if (Shard* shard = current_worker_.shard; shard && shard->receiver == current_worker_.index) {
    const int64_t now = monotonic_ns();
    shard->blocked_since.store(now, std::memory_order_relaxed);
    last_block_.store(now, std::memory_order_relaxed);
    // The watcher sleeps while nothing blocks: one wake-up for a burst of host calls.
    if (!watching_.exchange(true)) {
      const std::lock_guard watch(watch_mutex_);
      watch_changed_.notify_one();
    }
  }
  unlock_and_send();
}

void Platform::lock_again() {
  if (Shard* shard = current_worker_.shard; shard && shard->receiver == current_worker_.index) {
    shard->blocked_since.store(0, std::memory_order_relaxed);
  }
  lock_.lock();
}

void Platform::watch() {
  for (;;) {
    {
      std::unique_lock watch(watch_mutex_);
      watch_changed_.wait(watch, [&] { return watching_.load(); });
    }
    while (monotonic_ns() - last_block_.load(std::memory_order_relaxed) < kWatchAfterwards) {
      timespec pause{0, kPatience};
      nanosleep(&pause, nullptr);
      for (auto& shard : shards_) {
        const int64_t since = shard->blocked_since.load(std::memory_order_relaxed);
        if (since == 0 || monotonic_ns() - since < kPatience) continue;
        last_block_.store(monotonic_ns(), std::memory_order_relaxed);  // as long as it lasts
        const std::lock_guard role(shard->role_mutex);
        for (unsigned i = 0; i < kWorkers; i++) {
          if (shard->busy[i] || i == shard->receiver) continue;
          shard->receiver = i;
          shard->blocked_since.store(0, std::memory_order_relaxed);
          shard->role_changed.notify_all();
          break;
        }
      }
    }
    watching_.store(false);
  }
}

void Platform::reap() {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | __WALL) != 0) {
      if (errno == EINTR) continue;
      return;  // no children are left: the zygotes are gone, and on_fatal has been called
    }
    lock_.lock();
    process_died(info.si_pid);
    unlock_and_flush();
  }
}

void Platform::unlock_and_flush() {
  client_->run_pending();
  refill();
  unlock_and_send();
}

void Platform::unlock_and_send() {
  std::vector<Outgoing> batch;
  batch.swap(outgoing_);
  lock_.unlock();
  for (Outgoing& out : batch) {
    // ENOENT: the thread died meanwhile; the reaper tells the kernel.
    if (out.approve) {
      (void)out.notifier->approve(out.id);
    } else if (out.fd >= 0) {
      if (const auto sent = out.notifier->reply_with_fd(out.id, out.fd); !sent && sent.error() != ENOENT) {
        LOG_WARN("handing over a descriptor failed: errno {}", sent.error().value);
        (void)out.notifier->reply(out.id, -ENOSYS);
      }
    } else {
      (void)out.notifier->reply(out.id, 0);
    }
  }
}

// ---- Notifications

void Platform::deny(Shard& shard, const Notification& n) {
  // A thread that asks for what nobody ordered is hostile. It is not resumed; its process ends.
  const auto it = by_tid_.find(static_cast<pid_t>(n.tid));
  if (it == by_tid_.end()) {
    LOG_WARN("an unknown host thread {} asked for an unordered call", n.tid);
    keeper_.send(keeper::Op::kKill, static_cast<int32_t>(n.tid));
    return;
  }
  (void)shard;
  LOG_WARN("host thread {} asked for an unordered call; its process is ended", n.tid);
  end_process(it->second->mm());
}

void Platform::handle(Shard& shard, const Notification& n) {
  const auto it = by_tid_.find(static_cast<pid_t>(n.tid));
  GuestThread* thread = it == by_tid_.end() ? nullptr : it->second;
  if (thread && thread->mm().gone) return;
  if (n.nr == SYS_clone) {
    if (!thread) return deny(shard, n);
    return handle_clone(thread, n);
  }
  if (n.args[1] == UKS_HELLO) return handle_hello(shard, n);
  if (n.args[1] != UKS_HANDOFF || !thread || n.args[2] != thread->index() || thread->in_sentry) return deny(shard, n);

  thread->in_sentry = true;
  thread->notification = n.id;
  thread->kicked = false;
  thread->load_call();
  if (thread->event == UKS_EVENT_CLONED) child_reported(*thread);
  if (thread == shard.zygote) {
    // Idle again, or the last clone is reported: if that failed the pool stays smaller.
    if (thread->event == UKS_EVENT_CLONED && thread->result < 0 && thread->clone_child) {
      abandon_child(thread->clone_child);
      in_the_making_--;
    }
    shard.zygote_idle = true;
    return;
  }
  if (thread->task == nullptr) {
    const bool from_zygote = thread->event == UKS_EVENT_DONE && thread->token == 1;
    if (from_zygote) {
      thread->token = 0;
      in_the_making_--;
      pool_.push_back(thread);
      client_->on_pool_refilled();
      return;
    }
    end_thread(thread);
    return;
  }
  client_->on_handoff(*thread);
}

// The parent says which host process its new child is: the only way to learn of one that dies before
// its hello. A lie harms the liar's child alone.
void Platform::child_reported(GuestThread& parent) {
  GuestThread* child = parent.clone_child;
  if (!child || child->mm().host_pid != 0 || parent.result <= 0) return;
  const auto pid = static_cast<pid_t>(parent.result);
  if (const auto it = std::find(dead_unheard_.begin(), dead_unheard_.end(), pid); it != dead_unheard_.end()) {
    dead_unheard_.erase(it);
    child_vanished(child);
  } else {
    // From here on the child's fate no longer hangs on its parent, which may exec or exit first.
    unheard_[pid] = child;
    parent.unlink_child();
  }
}

void Platform::child_vanished(GuestThread* child) {
  if (child->token == 1) in_the_making_--;
  if (child->task) client_->on_gone(*child);
  abandon_child(child);
}

void Platform::handle_clone(GuestThread* thread, const Notification& n) {
  // All six registers, once: nothing else is approved (HAZARDS S3).
  if (!thread->clone_approved ||
      !std::equal(thread->clone_args.begin(), thread->clone_args.end(), std::begin(n.args))) {
    const auto it = by_tid_.find(static_cast<pid_t>(n.tid));
    LOG_WARN("host thread {} made an unordered clone; its process is ended", n.tid);
    end_process(it->second->mm());
    return;
  }
  thread->clone_approved = false;
  outgoing_.push_back({&notifier_of(*thread), n.id, true, -1, {}, {}});
}

void Platform::handle_hello(Shard& shard, const Notification& n) {
  const auto it = awaited_.find(n.args[2]);
  const auto tid = static_cast<pid_t>(n.tid);
  if (it == awaited_.end() || by_tid_.contains(tid)) return deny(shard, n);
  GuestThread* thread = it->second;
  awaited_.erase(it);
  if (thread->clone_parent) thread->clone_parent->unlink_child();
  thread->host_tid = tid;
  by_tid_[tid] = thread;
  thread->in_sentry = true;
  thread->notification = n.id;
  thread->clear_data();
  AddressSpace& mm = thread->mm();
  if (mm.host_pid != 0) {  // a new thread of a known process
    if (thread->task == nullptr) {
      end_thread(thread);
      return;
    }
    client_->on_started(*thread);
    return;
  }
  mm.host_pid = tid;
  by_pid_[tid] = Ref<AddressSpace>(&mm);
  unheard_.erase(tid);
  thread->awaits_window = true;
  if (thread->token == 1) {  // a pool stub: map the window, come back
    Reply reply;
    reply.action = UKS_ACTION_AGAIN;
    this->reply(*thread, std::move(reply));
  } else if (thread->task == nullptr) {  // its guest was killed meanwhile
    Reply reply;
    reply.action = UKS_ACTION_EXIT_GROUP;
    this->reply(*thread, std::move(reply));
  } else {
    client_->on_started(*thread);
  }
}

// ---- Replies

void Platform::write_reply(GuestThread& thread, const Reply& reply) {
  uks_slot* slot = thread.slot();
  store(slot->order_count, thread.order_count());
  store(slot->flags, reply.flags);
  store(slot->ret, reply.ret);
  store(slot->action, reply.action);
}

void Platform::reply(GuestThread& thread, Reply reply) {
  CHECK(thread.in_sentry);
  write_reply(thread, reply);
  thread.in_sentry = false;
  Outgoing out{&notifier_of(thread), thread.notification, false, reply.donated.get(), std::move(reply.donated), {}};
  // The first answer to a new process, whenever it comes, brings its window; the slot is filled by now.
  if (std::exchange(thread.awaits_window, false)) {
    out.fd = thread.mm().window.fd();
    out.mm = Ref<AddressSpace>(&thread.mm());
  }
  outgoing_.push_back(std::move(out));
}

void Platform::forget(GuestThread* thread) {
  by_tid_.erase(thread->host_tid);
  std::erase(pool_, thread);
  AddressSpace& mm = thread->mm();
  const Ref<AddressSpace> keep(&mm);
  thread->gone = true;
  thread->in_sentry = false;
  mm.free_slot(thread->index());
  std::erase_if(mm.threads, [&](const auto& t) { return t.get() == thread; });
}

void Platform::end_thread(GuestThread* thread) {
  thread->task = nullptr;
  if (thread->host_tid == 0) return;  // not heard of yet: ended at its hello
  if (!thread->in_sentry) {
    kick(*thread);
    return;
  }
  thread->clear_data();
  Reply reply;
  reply.action = UKS_ACTION_EXIT;
  this->reply(*thread, std::move(reply));
  forget(thread);
}

void Platform::end_process(AddressSpace& mm) {
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
  // Not left to the stub's good will: the keeper kills what is still there. A process that has not said
  // hello yet is told to exit when it does (its threads have no task).
  if (mm.host_pid != 0) keeper_.send(keeper::Op::kKill, mm.host_pid);
}

Result<GuestThread*> Platform::clone(GuestThread& parent, const ClonePlan& plan) {
  CHECK(parent.in_sentry);
  Ref<AddressSpace> mm(&parent.mm());
  if (!plan.same_memory) {
    mm = make_ref<AddressSpace>(keeper_, layout_, parent.mm().shard());
    mm->window = TRY(Window::create());
    mm->has_shared_memory = parent.mm().has_shared_memory;
    mm->brk_start = parent.mm().brk_start;
    mm->stack_top = parent.mm().stack_top;
    mm->stack_size = parent.mm().stack_size;
    mm->code_start = parent.mm().code_start;
    mm->code_end = parent.mm().code_end;
    mm->arg_start = parent.mm().arg_start;
    mm->arg_end = parent.mm().arg_end;
    mm->env_start = parent.mm().env_start;
    mm->env_end = parent.mm().env_end;
    // The child goes on in its parent's area: same index.
    for (unsigned i = 0; i <= parent.index(); i++) (void)mm->allocate_slot();
  }
  const unsigned index = plan.same_memory ? TRY(mm->allocate_slot()) : parent.index();
  GuestThread* child = new_thread(mm, index);
  child->token = new_token();
  awaited_[child->token] = child;

  const uint64_t base = layout_.base;
  uint64_t flags = plan.set_tls ? CLONE_SETTLS : 0;
  uint64_t stack = 0;
  uint64_t alive = 0;
  if (plan.same_memory) {
    flags |= CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    stack = base + UKS_STUB_AREAS + uint64_t{index} * UKS_AREA_SIZE + UKS_AREA_STACK_TOP - 16;
    alive = base + UKS_STUB_WINDOW + uint64_t{index} * UKS_SLOT_SIZE + offsetof(uks_slot, alive);
    store(child->slot()->alive, 1);
  } else {
    flags |= CLONE_PARENT | SIGCHLD;
    store(child->slot()->alive, 1);  // its first area is never used again
  }
  parent.clone_args = {flags, stack, 0, alive, plan.tls, 0};
  parent.clone_approved = true;
  parent.link_child(*child);
  uks_slot* slot = parent.slot();
  for (size_t i = 0; i < 6; i++) store(slot->clone_args[i], parent.clone_args[i]);
  store(slot->token, child->token);
  store(slot->child_slot, index);
  store(slot->enter_sp, plan.stack);
  parent.clear_data();
  Reply reply;
  reply.action = UKS_ACTION_CLONE;
  this->reply(parent, std::move(reply));
  return child;
}

void Platform::abandon_child(GuestThread* child) {
  std::erase_if(awaited_, [&](const auto& entry) { return entry.second == child; });
  std::erase_if(unheard_, [&](const auto& entry) { return entry.second == child; });
  store(child->slot()->alive, 0);
  forget(child);
}

GuestThread* Platform::take_stub() {
  while (!pool_.empty()) {
    GuestThread* thread = pool_.front();
    pool_.pop_front();
    if (!thread->mm().gone) return thread;
  }
  return nullptr;
}

void Platform::kick(GuestThread& thread) {
  if (thread.in_sentry || thread.kicked || thread.host_tid == 0 || thread.mm().gone) return;
  thread.kicked = true;
  // The only signal the filter lets through, and the only call that could name a bystander: harmless.
  (void)syscall(SYS_tgkill, thread.mm().host_pid, thread.host_tid, SIGURG);
}

// ---- The pool

void Platform::refill() {
  for (auto& shard : shards_) {
    if (!shard->zygote_idle || pool_.size() + in_the_making_ >= pool_size_) continue;
    // A zygote that waits answers at once; its child makes itself ready off the critical path.
    shard->zygote_idle = false;
    auto child = clone(*shard->zygote, {});
    if (!child) {
      LOG_WARN("no fresh stub process: errno {}", child.error().value);
      shard->zygote_idle = true;
      return;
    }
    in_the_making_++;
    // A pool stub is known by this mark until it is ready; the hello's token lives in `awaited_`.
    (*child)->token = 1;
  }
}

// ---- Death

void Platform::process_died(pid_t pid) {
  for (auto& shard : shards_) {
    if (shard->zygote_mm->host_pid == pid) client_->on_fatal("a zygote died");
  }
  const auto it = by_pid_.find(pid);
  if (it == by_pid_.end()) {
    if (const auto child = unheard_.find(pid); child != unheard_.end()) {
      GuestThread* thread = child->second;
      unheard_.erase(child);
      child_vanished(thread);
      return;
    }
    if (dead_unheard_.size() < kMaxDeadUnheard) dead_unheard_.push_back(pid);
    return;
  }
  const Ref<AddressSpace> mm = it->second;
  by_pid_.erase(it);
  mm->gone = true;
  while (!mm->threads.empty()) {
    const Ref<GuestThread> keep = mm->threads.back();
    GuestThread* thread = keep.get();
    thread->gone = true;
    thread->in_sentry = false;
    if (thread->token == 1) in_the_making_--;
    // A child process that was ordered, never said hello, and now has nobody to report it.
    if (GuestThread* child = thread->clone_child; child && &child->mm() != mm.get()) child_vanished(child);
    std::erase_if(awaited_, [&](const auto& entry) { return entry.second == thread; });
    if (thread->task) client_->on_gone(*thread);
    by_tid_.erase(thread->host_tid);
    std::erase(pool_, thread);
    std::erase(mm->threads, keep);
  }
}

}  // namespace uks
