#include "platform/ptrace/tracer.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <utility>

#include "platform/base/fd_message.h"
#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "platform/channel/slot.h"

namespace uks {
namespace {

constexpr long kOptions = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                          PTRACE_O_TRACEVFORK | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
constexpr int kSyscallStop = SIGTRAP | 0x80;

// A number says which stop of which thread is answered: the thread may have died, and its id be
// another's.
constexpr uint64_t make_id(uint64_t serial, pid_t tid) {
  return serial << 32 | static_cast<uint32_t>(tid);
}
constexpr pid_t thread_of(uint64_t id) { return static_cast<pid_t>(id & 0xffffffff); }

// ESRCH at any time: the tracee was killed.
bool go_on(pid_t tid, int signo, __ptrace_request how = PTRACE_CONT) {
  return ptrace(how, tid, nullptr, static_cast<long>(signo)) == 0;
}

// What recvmsg(2) sees in a landing.
static_assert(offsetof(uks_landing, part_base) == sizeof(msghdr));
static_assert(offsetof(uks_landing, parts) == offsetof(msghdr, msg_iov));
static_assert(offsetof(uks_landing, control) == offsetof(msghdr, msg_control));
static_assert(offsetof(uks_landing, message_length) == sizeof(msghdr) + sizeof(iovec));
static_assert(offsetof(uks_landing, number) - offsetof(uks_landing, message_length) == CMSG_LEN(0));
static_assert(offsetof(uks_landing, bytes) - offsetof(uks_landing, message_length) ==
              CMSG_SPACE(sizeof(int)));
static_assert(sizeof(uks_landing) % sizeof(long) == 0);
// Where it lies for want of a slot.
constexpr uint64_t kBelowStack = 1024;

bool is_death(const siginfo_t& info) {
  return info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
}

uks_landing make_landing(uint64_t at) {
  uks_landing landing{};
  landing.parts = at + offsetof(uks_landing, part_base);
  landing.part_count = 1;
  landing.control = at + offsetof(uks_landing, message_length);
  landing.control_length = CMSG_SPACE(sizeof(int));
  landing.part_base = at + offsetof(uks_landing, bytes);
  landing.part_length = 1;
  return landing;
}

}  // namespace

Result<std::unique_ptr<Tracer>> Tracer::start(Zygote& zygote) {
  std::unique_ptr<Tracer> tracer(new Tracer);
  tracer->sending_ = std::move(zygote.donations[0]);
  tracer->receiving_ = std::move(zygote.donations[1]);
  std::mutex mutex;
  std::condition_variable attached;
  std::optional<int> error;
  std::unique_lock lock(mutex);
  TRY(start_thread([&, t = tracer.get()] { t->run(zygote.pid, mutex, attached, error); }));
  attached.wait(lock, [&] { return error.has_value(); });
  if (*error == 0) return tracer;
  return Err(*error);
}

void Tracer::run(pid_t zygote, std::mutex& mutex, std::condition_variable& attached,
                 std::optional<int>& error) {
  thread_id_ = static_cast<pid_t>(syscall(SYS_gettid));
  const int result = ptrace(PTRACE_SEIZE, zygote, nullptr, kOptions) == 0 ? 0 : errno;
  {
    const std::lock_guard lock(mutex);
    error = result;
    attached.notify_one();
  }
  if (result != 0) return;
  sigset_t news;
  sigemptyset(&news);
  sigaddset(&news, SIGCHLD);
  sigaddset(&news, SIGURG);
  for (;;) {
    // Both signals are blocked: what arrives between the look and the wait ends the wait.
    // All that have stopped before any goes on: waitid(2) looks at the newest tracee first, which
    // could keep the others waiting for ever. And no more than these before the answers have their
    // turn.
    collect_stops();
    const bool ordered = serve_commands();
    for (const Stop& stop : stops_) stopped(stop.tid, stop.status);
    if (stops_.empty() && !ordered) (void)sigwaitinfo(&news, nullptr);
  }
}

void Tracer::collect_stops() {
  stops_.clear();
  for (;;) {
    siginfo_t info{};
    while (waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG | __WALL) == 0 && info.si_pid != 0) {
      stops_.push_back({info.si_pid, info.si_status});
      info = {};
    }
    // This sees tracees' stops as well, whatever the options say: the reaper cannot wait by itself.
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 || info.si_pid == 0)
      return;
    if (is_death(info)) return report_death(info.si_pid);
  }
}

// The kernel's lock is the reaper's to wait for: its holder may wait for a stub that only this
// thread can let go on.
void Tracer::report_death(pid_t tid) {
  if (dying_ == tid) return;
  dying_ = tid;
  const std::lock_guard lock(mutex_);
  dead_ = tid;
  death_.notify_one();
}

void Tracer::stopped(pid_t tid, int status) {
  const int signo = status & 0xff;
  const int event = status >> 8;
  if (signo == kSyscallStop) {
    if (tid == receiver_) {
      finish_donation(tid);
    } else {
      go_on(tid, 0);
    }
    return;
  }
  if (event == PTRACE_EVENT_STOP) {
    // A new tracee, or a stop of its whole process, which SIGCONT ends.
    go_on(tid, 0, signo == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN);
    return;
  }
  if (event == PTRACE_EVENT_SECCOMP) {
    user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, tid, nullptr, &registers) != 0) return;
    const uint64_t id = make_id(++serial_, tid);
    waiting_[tid] = id;
    const Notification n{
        id,
        static_cast<uint32_t>(tid),
        static_cast<int32_t>(registers.orig_rax),
        {registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9}};
    const std::lock_guard lock(mutex_);
    // Dead meanwhile: nobody knows it any more when that is looked at, and its number may be
    // another's.
    for (const Command& command : commands_) {
      if (command.kind == Command::kDied && thread_of(command.id) == tid) return;
    }
    notifications_.push_back(n);
    arrived_.notify_one();
    return;
  }
  go_on(tid, event == 0 ? signo : 0);
}

bool Tracer::serve_commands() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (Command& command : commands) carry_out(std::move(command));
  return !commands.empty();
}

void Tracer::carry_out(Command command) {
  const pid_t tid = thread_of(command.id);
  if (command.kind == Command::kDied) {
    waiting_.erase(tid);
    if (receiver_ == tid) finish_donation(0);
    return;
  }
  if (command.kind == Command::kReaped) {
    dying_ = 0;  // the next one is looked for
    return;
  }
  const auto it = waiting_.find(tid);
  if (it == waiting_.end() || it->second != command.id) return;  // it died
  if (command.kind == Command::kDonate) {
    donations_.push_back(std::move(command));
    donate_next();
    return;
  }
  waiting_.erase(it);
  if (command.kind == Command::kReply) {
    user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, tid, nullptr, &registers) != 0) return;
    registers.orig_rax = ~0ull;  // no call is made; rax is its result
    registers.rax = static_cast<uint64_t>(command.value);
    if (ptrace(PTRACE_SETREGS, tid, nullptr, &registers) != 0) return;
  }
  go_on(tid, 0);
}

void Tracer::donate_next() {
  while (receiver_ == 0 && !donations_.empty()) {
    const Command command = std::move(donations_.front());
    donations_.pop_front();
    const pid_t tid = thread_of(command.id);
    const auto it = waiting_.find(tid);
    if (it == waiting_.end() || it->second != command.id) continue;
    waiting_.erase(it);
    user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, tid, nullptr, &registers) != 0) continue;

    const char byte = 0;
    const bool sent = aim_at_donation(tid, registers, command.landing) &&
                      send_message(sending_.get(), &byte, 1, command.fd.get());
    if (sent) {
      receiver_ = tid;
      lands_in_slot_ = command.landing != 0;
    } else {
      LOG_WARN_LIMITED("handing over a descriptor failed: errno {}", errno);
      registers.orig_rax = ~0ull;
      registers.rax = static_cast<uint64_t>(int64_t{-ENOSYS});  // the stub ends its process
    }
    // A tracee that is killed here is seen dying, and its descriptor is taken back then.
    if (ptrace(PTRACE_SETREGS, tid, nullptr, &registers) == 0)
      go_on(tid, 0, sent ? PTRACE_SYSCALL : PTRACE_CONT);
  }
}

bool Tracer::aim_at_donation(pid_t tid, user_regs_struct& registers, uint64_t landing) {
  uint64_t at = landing;
  if (at == 0) {
    at = (registers.rsp - kBelowStack) & ~uint64_t{15};
    const uks_landing made = make_landing(at);
    // Wherever a hostile stack pointer leads, it is the tracee's own memory that changes.
    for (size_t i = 0; i < sizeof made; i += sizeof(long)) {
      long word;
      memcpy(&word, reinterpret_cast<const char*>(&made) + i, sizeof word);
      if (ptrace(PTRACE_POKEDATA, tid, at + i, word) != 0) return false;
    }
  }
  registers.orig_rax = SYS_recvmsg;
  registers.rdi = 0;
  registers.rsi = at;
  registers.rdx = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
  return true;
}

int64_t Tracer::donation_result(pid_t tid, const user_regs_struct& registers) {
  // Wrong only if the guest interferes with its own stub.
  if (registers.rax != 1) return -ENOSYS;
  if (lands_in_slot_) return UKS_LANDED;
  errno = 0;
  const long word =
      ptrace(PTRACE_PEEKDATA, tid, registers.rsi + offsetof(uks_landing, number), nullptr);
  const int number = static_cast<int>(word & 0xffffffff);
  return errno != 0 || number <= 0 ? -ENOSYS : number;
}

// `tid`: stopped at the end of its recvmsg; 0: it died.
void Tracer::finish_donation(pid_t tid) {
  receiver_ = 0;
  // What was not taken must not reach the next one.
  char byte;
  (void)recv(receiving_.get(), &byte, 1, MSG_DONTWAIT);
  user_regs_struct registers;
  if (tid != 0 && ptrace(PTRACE_GETREGS, tid, nullptr, &registers) == 0) {
    registers.rax = static_cast<uint64_t>(donation_result(tid, registers));
    if (ptrace(PTRACE_SETREGS, tid, nullptr, &registers) == 0) go_on(tid, 0);
  }
  donate_next();
}

// ---- From other threads

Result<void> Tracer::enqueue(Command command) {
  bool first;
  {
    const std::lock_guard lock(mutex_);
    if (command.kind == Command::kDied) {
      const auto tid = static_cast<uint32_t>(thread_of(command.id));
      std::erase_if(notifications_, [tid](const Notification& n) { return n.tid == tid; });
    }
    first = commands_.empty();
    commands_.push_back(std::move(command));
  }
  if (first) (void)syscall(SYS_tgkill, getpid(), thread_id_, SIGURG);
  return {};
}

Result<Notification> Tracer::receive() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return !notifications_.empty(); });
  const Notification n = notifications_.front();
  notifications_.pop_front();
  return n;
}

Result<void> Tracer::reply(uint64_t id, int64_t value) {
  return enqueue({Command::kReply, id, value, {}, 0});
}

Result<void> Tracer::approve(uint64_t id) { return enqueue({Command::kApprove, id, 0, {}, 0}); }

Result<void> Tracer::reply_with_fd(uint64_t id, int fd, int, uint64_t landing) {
  // The caller's may be closed before it is sent.
  UniqueFd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own) return HostErr();
  return enqueue({Command::kDonate, id, 0, std::move(own), landing});
}

void Tracer::prepare(uks_landing& place, uint64_t landing) { place = make_landing(landing); }

pid_t Tracer::wait_for_death() {
  std::unique_lock lock(mutex_);
  death_.wait(lock, [this] { return dead_ != 0; });
  return std::exchange(dead_, 0);
}

void Tracer::reaped(pid_t tid) { (void)enqueue({Command::kReaped, make_id(0, tid), 0, {}, 0}); }

void Tracer::forget(pid_t tid) { (void)enqueue({Command::kDied, make_id(0, tid), 0, {}, 0}); }

}  // namespace uks
