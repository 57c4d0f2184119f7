#include "platform/fake/fake_platform.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "platform/base/check.h"
#include "platform/base/fd_message.h"
#include "platform/channel/shared_cell.h"

namespace uks::fake {
namespace {

// Where a host would have put things.
StubLayout make_layout() {
  StubLayout layout;
  layout.base = 0x7e0000000000;
  layout.stack_top = 0x7ffffffde000;
  layout.mmap_top = 0x7dfff0000000;
  return layout;
}

UniqueFd connect_keeper(UniqueFd& other) {
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
  other.reset(pair[1]);
  return UniqueFd(pair[0]);
}

// A keeper that opens memfds once more and nothing else. Signals and messages get no answer.
void be_keeper(int socket) {
  keeper::Message message;
  UniqueFd attached;
  for (;;) {
    attached.reset();
    const auto n = receive_message(socket, &message, sizeof message, attached);
    if (!n || *n == 0) return;
    if (message.op != keeper::Op::kReopen && message.op != keeper::Op::kOpenMem &&
        message.op != keeper::Op::kOpenMaps)
      continue;
    UniqueFd twin;
    if (message.op == keeper::Op::kReopen) {
      twin.reset(
          open(("/proc/self/fd/" + std::to_string(attached.get())).c_str(), O_RDONLY | O_CLOEXEC));
    }
    message.op = keeper::Op::kMem;
    message.value = twin ? 0 : ESRCH;
    (void)send_message(socket, &message, sizeof message, twin.get());
  }
}

}  // namespace

FakePlatform::FakePlatform(Mutex& kernel_lock)
    : lock_(kernel_lock), layout_(make_layout()), keeper_(connect_keeper(keepers_end_)) {
  memory_refused = true;  // all guest memory goes through order_memory()
  keepers_thread_ = std::thread(be_keeper, keepers_end_.get());
}

FakePlatform::~FakePlatform() {
  shutdown(keepers_end_.get(), SHUT_RDWR);
  keepers_thread_.join();
  // Threads and their address spaces hold each other until they are forgotten.
  for (Process& process : processes_) process.mm->threads.clear();
}

// ---- The guest

void FakePlatform::begin_call(GuestThread& thread, uint64_t nr, std::array<uint64_t, 6> args) {
  CHECK(runs(thread));
  Cpu& c = cpu(thread);
  c.nr = nr;
  c.args = args;
  c.result.reset();
  uks_slot* slot = thread.slot();
  slot->nr = nr;
  std::copy(args.begin(), args.end(), slot->args);
  hand_over(thread, UKS_EVENT_SYSCALL);
}

std::optional<int64_t> FakePlatform::call(GuestThread& thread, uint64_t nr,
                                          std::array<uint64_t, 6> args) {
  begin_call(thread, nr, args);
  run();
  return result(thread);
}

std::optional<int64_t> FakePlatform::result(const GuestThread& thread) const {
  const auto found = cpus_.find(&thread);
  return found == cpus_.end() ? std::nullopt : found->second.result;
}
bool FakePlatform::runs(const GuestThread& thread) const {
  const auto found = cpus_.find(&thread);
  return found != cpus_.end() && found->second.running && !thread.gone && !thread.mm().gone;
}
const std::vector<Handler>& FakePlatform::handlers(const GuestThread& thread) const {
  static const std::vector<Handler> none;
  const auto found = cpus_.find(&thread);
  return found == cpus_.end() ? none : found->second.handlers;
}
uint64_t FakePlatform::entry(const GuestThread& thread) const {
  const auto found = cpus_.find(&thread);
  return found == cpus_.end() ? 0 : found->second.entry;
}

void FakePlatform::return_from_handler(GuestThread& thread) {
  Cpu& c = cpu(thread);
  CHECK(runs(thread) && !c.frames.empty());
  // The frame restores the registers; the kernel hears of the mask and the alternate stack.
  const Frame frame = c.frames.back();
  c.frames.pop_back();
  c.handlers.pop_back();
  c.nr = frame.nr;
  c.args = frame.args;
  c.result = frame.rax;
  uks_slot* slot = thread.slot();
  slot->args[0] = frame.handler.old_mask;
  slot->args[1] = slot->args[2] = 0;
  slot->args[3] = 2;  // SS_DISABLE
  hand_over(thread, UKS_EVENT_SIGRETURN);
  run();
  if (frame.restart && runs(thread)) (void)call(thread, frame.nr, frame.args);
}

void FakePlatform::let_run(GuestThread& thread) {
  thread.in_sentry = false;
  cpu(thread).running = true;
}

Memory& FakePlatform::memory(const AddressSpace& mm) {
  Process* process = process_of(mm);
  CHECK(process);
  return *process->memory;
}

FakePlatform::Process* FakePlatform::process_of(const AddressSpace& mm) {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const Process& p) { return p.mm.get() == &mm; });
  return found == processes_.end() ? nullptr : &*found;
}

void FakePlatform::hand_over(GuestThread& thread, uint32_t event, int64_t result) {
  const Ref<GuestThread> keep(&thread);
  lock_.lock();
  cpu(thread).running = false;
  uks_slot* slot = thread.slot();
  slot->event = event;
  slot->result = result;
  slot->range_count = 0;  // nothing comes along: all is fetched
  thread.in_sentry = true;
  thread.kicked = false;
  thread.load_call();
  if (thread.task) {
    client_->on_handoff(thread);
  } else {
    end_thread(&thread);
  }
  unlock_and_flush();
}

// ---- What a stub does

bool FakePlatform::step() {
  while (!steps_.empty()) {
    const Step step = std::move(steps_.front());
    steps_.pop_front();
    // Who is dead does nothing more, but die.
    if (step.what != What::kDeath &&
        (step.thread->mm().gone || (step.thread->gone && step.what != What::kAnswer)))
      continue;
    switch (step.what) {
      case What::kAnswer:
        answer(step);
        break;
      case What::kHello:
        say_hello(*step.thread);
        break;
      case What::kCloned:
        report_clone(step);
        break;
      case What::kKick:
        if (!runs(*step.thread)) continue;  // it has come in by itself
        hand_over(*step.thread, UKS_EVENT_KICK);
        break;
      case What::kDeath:
        if (step.mm->gone) continue;
        vanish(*step.mm);
        break;
    }
    return true;
  }
  return false;
}

void FakePlatform::answer(const Step& step) {
  GuestThread& thread = *step.thread;
  const uks_slot* slot = thread.slot();
  int64_t result = 0;
  uint64_t copied = 0;
  for (uint32_t i = 0; i < slot->order_count; i++) {
    result = carry_out(thread, slot->orders[i], step.reply.donated.get(), &copied);
    if (result < 0 && result > -4096) break;
  }
  switch (step.reply.action) {
    case UKS_ACTION_RESUME:
      return resume(thread, step.reply, result, copied);
    case UKS_ACTION_ENTER:
      if (result < 0 && result > -4096) return vanish(thread.mm());
      cpu(thread) = {};
      cpu(thread).running = true;
      cpu(thread).entry = slot->enter_ip;
      return;
    case UKS_ACTION_EXIT:
      cpus_.erase(&thread);
      return;
    case UKS_ACTION_EXIT_GROUP:
      return vanish(thread.mm());
    case UKS_ACTION_CLONE:
      return make_clone(thread);
    case UKS_ACTION_AGAIN:
      return hand_over(thread, UKS_EVENT_DONE, result);
    default:
      CHECK(!"an action that the fake does not know");
  }
}

void FakePlatform::resume(GuestThread& thread, const Reply& reply, int64_t orders,
                          uint64_t copied) {
  Cpu& c = cpu(thread);
  std::optional<int64_t> rax = c.result;  // as it was, after a kick
  if (reply.flags & UKS_RESUME_RAX) {
    rax = static_cast<int64_t>(reply.ret);
    if (orders == -EFAULT && !(reply.flags & UKS_RESUME_MMAP)) {
      const bool counts = (reply.flags & UKS_RESUME_COUNT) && copied && copied < reply.ret;
      rax = counts ? static_cast<int64_t>(copied) : -EFAULT;
    }
  }
  if (reply.flags & UKS_RESUME_MMAP) rax = orders;
  const bool restart = reply.flags & UKS_RESUME_RESTART;
  if (restart) c.nr = reply.ret;
  c.running = true;
  if (reply.flags & UKS_RESUME_SIGNAL) {
    const uks_signal& signal = thread.slot()->signal;
    const Handler handler{signal.handler, static_cast<int>(signal.signo), signal.old_mask};
    c.frames.push_back({handler, restart ? std::nullopt : rax, restart, c.nr, c.args});
    c.handlers.push_back(handler);
    if (reply.flags & UKS_RESUME_AGAIN) hand_over(thread, UKS_EVENT_KICK);
    return;
  }
  if (restart) return begin_call(thread, c.nr, c.args);
  c.result = rax;
}

int64_t FakePlatform::carry_out(GuestThread& thread, const uks_order& order, int donated,
                                uint64_t* copied) {
  Memory& memory = this->memory(thread.mm());
  char* data = thread.data() + order.offset % UKS_SLOT_DATA_SIZE;
  switch (order.op) {
    case UKS_ORDER_COPY_OUT: {
      const uint64_t n = memory.write(order.addr, data, order.length);
      *copied += n;
      return n == order.length ? 0 : -EFAULT;
    }
    case UKS_ORDER_COPY_IN: {
      const uint64_t n = memory.read(order.addr, data, order.length);
      *copied += n;
      return n == order.length ? 0 : -EFAULT;
    }
    case UKS_ORDER_SCATTER:
      for (uint64_t i = 0; i < order.length; i++) {
        if (memory.write(order.addr + i * order.flags, data + 2 * i, 2) != 2) return -EFAULT;
      }
      return 0;
    case UKS_ORDER_ZERO: {
      const std::vector<char> zeros(order.length);
      return memory.write(order.addr, zeros.data(), zeros.size()) == zeros.size() ? 0 : -EFAULT;
    }
    case UKS_ORDER_MMAP: {
      // Big mappings (a stack) get their last pages, which is where they are used.
      const uint64_t skipped = order.length - std::min<uint64_t>(order.length, 64 * Memory::kPage);
      memory.map(order.addr + skipped, order.length - skipped);
      if (order.flags & MAP_ANONYMOUS) return static_cast<int64_t>(order.addr);
      std::vector<char> bytes(order.length);
      const ssize_t n =
          pread(donated, bytes.data(), bytes.size(), static_cast<off_t>(order.offset));
      if (n < 0) return -errno;
      (void)memory.write(order.addr, bytes.data(), static_cast<uint64_t>(n));
      return static_cast<int64_t>(order.addr);
    }
    case UKS_ORDER_MUNMAP:
      memory.unmap(order.addr, order.length);
      return 0;
    case UKS_ORDER_MPROTECT:
    case UKS_ORDER_SET_BRK:
    case UKS_ORDER_SET_LIMITED:
      return 0;
    default:
      return -EINVAL;
  }
}

Ref<GuestThread> FakePlatform::take_to_copy(AddressSpace& mm, GuestThread* own) {
  if (mm.gone || mm.threads.empty()) return nullptr;
  Ref<GuestThread> thread(own && &own->mm() == &mm ? own : mm.threads.front().get());
  CHECK(!thread->taken);
  thread->taken = true;
  return thread;
}

void FakePlatform::give_back(GuestThread& thread) { thread.taken = false; }

Result<int64_t> FakePlatform::order_memory(GuestThread& thread, const uks_order& order,
                                           void* bytes) {
  CHECK(thread.taken);
  const AddressSpace& mm = thread.mm();
  Process* process = mm.gone ? nullptr : process_of(mm);
  if (!process) return Err(EIO);
  uint64_t n = 0;
  switch (order.op) {
    case UKS_ORDER_COPY_IN:
      n = process->memory->read(order.addr, bytes, order.length);
      break;
    case UKS_ORDER_COPY_OUT:
      n = process->memory->write(order.addr, bytes, order.length);
      break;
    case UKS_ORDER_CMPXCHG: {
      uint32_t old = 0;
      if (process->memory->read(order.addr, &old, sizeof old) != sizeof old) return Err(EFAULT);
      if (old == order.prot) (void)process->memory->write(order.addr, &order.flags, sizeof old);
      return old;
    }
    default:
      return Err(EINVAL);
  }
  if (n == 0) return Err(EFAULT);
  return static_cast<int64_t>(n);
}

// ---- Processes and threads

GuestThread* FakePlatform::new_thread(const Ref<AddressSpace>& mm, unsigned index) {
  mm->threads.push_back(make_ref<GuestThread>(mm, index));
  return mm->threads.back().get();
}

GuestThread* FakePlatform::new_process() {
  auto window = Window::create();
  if (!window) return nullptr;
  auto mm = make_ref<AddressSpace>(keeper_, layout_, 0);
  mm->by_order = this;
  mm->window = std::move(*window);
  mm->take_slot(0);
  processes_.push_back({mm, std::make_shared<Memory>()});
  return new_thread(mm, 0);
}

GuestThread* FakePlatform::take_stub() {
  if (pool_ && *pool_ == 0) return nullptr;
  if (pool_) --*pool_;
  GuestThread* thread = new_process();
  if (!thread) return nullptr;
  thread->host_tid = thread->mm().host_pid = next_pid_++;
  thread->in_sentry = true;
  return thread;
}

void FakePlatform::set_pool(std::optional<unsigned> stubs) {
  pool_ = stubs;
  if (stubs && *stubs == 0) return;
  lock_.lock();
  client_->on_pool_refilled();
  unlock_and_flush();
}

Result<GuestThread*> FakePlatform::clone(GuestThread& parent, const ClonePlan& plan) {
  if (!parent.in_sentry || parent.gone) return Err(EAGAIN);
  GuestThread* child = nullptr;
  if (plan.same_memory) {
    const Ref<AddressSpace> mm(&parent.mm());
    const unsigned index = TRY(mm->allocate_slot());
    child = new_thread(mm, index);
  } else {
    child = new_process();
    if (!child) return Err(ENOMEM);
    child->mm().inherit_held(parent.mm());
  }
  store(child->slot()->alive, 1);
  parent.link_child(*child);
  parent.clone_ordered = true;
  parent.clear_data();
  return child;
}

void FakePlatform::order_clone(GuestThread& parent) {
  Reply reply;
  reply.action = UKS_ACTION_CLONE;
  this->reply(parent, std::move(reply));
}

void FakePlatform::make_clone(GuestThread& parent) {
  GuestThread* child = parent.clone_child;
  Step report{What::kCloned, Ref<GuestThread>(&parent), {}, {}, -clone_error_};
  if (clone_error_ == 0) {
    if (child && child->mm().gone) child = nullptr;  // it vanishes as soon as it is made
    const bool thread = child && &child->mm() == &parent.mm();
    if (child && !thread) *process_of(child->mm())->memory = *process_of(parent.mm())->memory;
    report.result = next_pid_++;
    parent.cloned_pid = static_cast<pid_t>(report.result);
    if (child) steps_.push_back({What::kHello, Ref<GuestThread>(child), {}, {}, 0});
  }
  steps_.push_back(std::move(report));
}

void FakePlatform::say_hello(GuestThread& child) {
  lock_.lock();
  GuestThread* parent = child.clone_parent;
  child.host_tid = parent ? parent->cloned_pid : next_pid_++;
  if (parent) parent->unlink_child();
  AddressSpace& mm = child.mm();
  if (mm.host_pid == 0) mm.host_pid = child.host_tid;
  child.in_sentry = true;
  child.clear_data();
  if (child.task) {
    client_->on_started(child);
  } else if (mm.host_pid == child.host_tid) {
    Reply reply;
    reply.action = UKS_ACTION_EXIT_GROUP;
    this->reply(child, std::move(reply));
  } else {
    end_thread(&child);
  }
  unlock_and_flush();
}

// As TrapPlatform::is_sound_report() and child_reported(): a child that died without a word is
// known by now.
void FakePlatform::report_clone(const Step& step) {
  GuestThread& parent = *step.thread;
  lock_.lock();
  parent.clone_ordered = false;
  if (GuestThread* child = parent.clone_child; child && step.result > 0 && child->mm().gone)
    child_vanished(*child);
  lock_.unlock();
  hand_over(parent, UKS_EVENT_CLONED, step.result);
}

void FakePlatform::child_vanished(GuestThread& child) {
  if (child.task) client_->on_gone(child);
  abandon_child(&child);
}

void FakePlatform::abandon_child(GuestThread* child) {
  const Ref<AddressSpace> mm(&child->mm());
  forget(*child);
  if (mm->threads.empty()) {
    mm->gone = true;
    std::erase_if(processes_, [&](const Process& p) { return p.mm == mm; });
  }
}

void FakePlatform::forget(GuestThread& thread) {
  const Ref<GuestThread> keep(&thread);
  AddressSpace& mm = thread.mm();
  thread.gone = true;
  thread.in_sentry = false;
  if (thread.clone_parent) thread.clone_parent->unlink_child();
  store(thread.slot()->alive, 0);
  mm.free_slot(thread.index());
  std::erase_if(mm.threads, [&](const auto& t) { return t.get() == &thread; });
}

// ---- Orders of the kernel

void FakePlatform::reply(GuestThread& thread, Reply reply) {
  CHECK(thread.in_sentry);
  uks_slot* slot = thread.slot();
  store(slot->order_count, thread.order_count());
  store(slot->flags, reply.flags);
  store(slot->ret, reply.ret);
  store(slot->action, reply.action);
  thread.in_sentry = false;
  steps_.push_back({What::kAnswer, Ref<GuestThread>(&thread), {}, std::move(reply), 0});
}

void FakePlatform::end_thread(GuestThread* thread) {
  thread->task = nullptr;
  if (thread->host_tid == 0) return;
  if (!thread->in_sentry) {
    kick(*thread);
    return;
  }
  thread->clear_data();
  Reply reply;
  reply.action = UKS_ACTION_EXIT;
  this->reply(*thread, std::move(reply));
  forget(*thread);
}

void FakePlatform::end_process(AddressSpace& mm) {
  if (mm.gone) return;
  // The keeper's SIGKILL. One that has not said hello is told to exit when it does.
  if (mm.host_pid != 0) steps_.push_back({What::kDeath, {}, Ref<AddressSpace>(&mm), {}, 0});
}

void FakePlatform::kick(GuestThread& thread) {
  if (thread.in_sentry || thread.kicked || thread.host_tid == 0 || thread.mm().gone) return;
  thread.kicked = true;
  steps_.push_back({What::kKick, Ref<GuestThread>(&thread), {}, {}, 0});
}

// ---- Death

void FakePlatform::vanish(AddressSpace& mm) {
  if (mm.gone) return;
  const Ref<AddressSpace> keep(&mm);
  lock_.lock();
  die(mm);
  unlock_and_flush();
}

void FakePlatform::die(AddressSpace& mm) {
  const Ref<AddressSpace> keep(&mm);
  mm.gone = true;
  std::erase_if(processes_, [&](const Process& p) { return p.mm.get() == &mm; });
  // One that never spoke: nobody knows yet whose child the dead process was, unless its parent has
  // reported it.
  if (mm.host_pid == 0 && !mm.threads.empty()) {
    GuestThread& child = *mm.threads.front();
    const bool reported = !child.clone_parent || !child.clone_parent->clone_ordered;
    if (reported) child_vanished(child);
    return;
  }
  while (!mm.threads.empty()) {
    const Ref<GuestThread> thread = mm.threads.back();
    thread->gone = true;
    thread->in_sentry = false;
    if (GuestThread* child = thread->clone_child; child && &child->mm() != &mm)
      child_vanished(*child);
    if (thread->task) client_->on_gone(*thread);
    cpus_.erase(thread.get());
    std::erase(mm.threads, thread);
  }
}

// ---- The lock

void FakePlatform::unlock_and_flush() {
  client_->run_pending();
  lock_.unlock();
}
void FakePlatform::unlock_to_block() { lock_.unlock(); }
void FakePlatform::lock_again() { lock_.lock(); }

}  // namespace uks::fake
