#include "platform/ptrace/tracer.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "platform/base/fd_message.h"
#include "platform/base/log.h"
#include "platform/channel/slot.h"

namespace uks {
namespace {

constexpr long kOptions = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                          PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
constexpr int kSyscallStop = SIGTRAP | 0x80;

// A number says which stop of which thread is answered: the thread may have died, and its id be another's.
constexpr uint64_t make_id(uint64_t serial, pid_t tid) { return serial << 32 | static_cast<uint32_t>(tid); }
constexpr pid_t thread_of(uint64_t id) { return static_cast<pid_t>(id & 0xffffffff); }

// ESRCH at any time: the tracee was killed.
bool go_on(pid_t tid, int signo, __ptrace_request how = PTRACE_CONT) {
  return ptrace(how, tid, nullptr, static_cast<long>(signo)) == 0;
}

// What recvmsg(2) needs, in the tracee's memory below its stack pointer.
struct Landing {
  msghdr header;
  iovec part;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  char byte[8];
};
static_assert(sizeof(Landing) % sizeof(long) == 0);
constexpr uint64_t kBelowStack = 1024;

}  // namespace

Result<std::unique_ptr<Tracer>> Tracer::start(Zygote& zygote) {
  std::unique_ptr<Tracer> tracer(new Tracer);
  tracer->sending_ = std::move(zygote.donations[0]);
  tracer->receiving_ = std::move(zygote.donations[1]);
  std::mutex mutex;
  std::condition_variable attached;
  std::optional<int> error;
  std::unique_lock lock(mutex);
  tracer->thread_ = std::thread([&, t = tracer.get()] { t->run(zygote.pid, mutex, attached, error); });
  attached.wait(lock, [&] { return error.has_value(); });
  if (*error == 0) return tracer;
  tracer->thread_.join();
  return Err(*error);
}

void Tracer::run(pid_t zygote, std::mutex& mutex, std::condition_variable& attached, std::optional<int>& error) {
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
    // All that have stopped before any goes on: waitid(2) looks at the newest tracee first, which could
    // keep the others waiting for ever.
    bool busy = serve_commands();
    while (serve_stop()) busy = true;
    if (!busy) (void)sigwaitinfo(&news, nullptr);
  }
}

bool Tracer::serve_stop() {
  siginfo_t info{};
  if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0 || info.si_pid == 0) return false;
  const pid_t tid = info.si_pid;
  if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) {
    died(tid);
    return true;
  }
  if (waitid(P_PID, static_cast<id_t>(tid), &info, WSTOPPED | WNOHANG | __WALL) == 0 && info.si_pid == tid) {
    stopped(tid, info.si_status);
  }
  return true;
}

void Tracer::died(pid_t pid) {
  waiting_.erase(pid);
  if (receiver_ == pid) finish_donation(0);
  std::function<void(pid_t)> on_death;
  {
    const std::lock_guard lock(mutex_);
    on_death = on_death_;
    // Nobody knows it any more when they are looked at, and its number may be another's.
    std::erase_if(notifications_, [pid](const Notification& n) { return n.tid == static_cast<uint32_t>(pid); });
  }
  siginfo_t info{};
  if (on_death) {
    on_death(pid);
  } else {
    (void)waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | __WALL);
  }
}

void Tracer::stopped(pid_t tid, int status) {
  const int signo = status & 0xff;
  const int event = status >> 8;
  if (signo == kSyscallStop) {
    finish_donation(tid);
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
    const Notification n{id,
                         static_cast<uint32_t>(tid),
                         static_cast<int32_t>(registers.orig_rax),
                         {registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9}};
    const std::lock_guard lock(mutex_);
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
    const bool sent = aim_at_donation(tid, registers) && send_message(sending_.get(), &byte, 1, command.fd.get());
    if (sent) {
      receiver_ = tid;
    } else {
      LOG_WARN_LIMITED("handing over a descriptor failed: errno {}", errno);
      registers.orig_rax = ~0ull;
      registers.rax = static_cast<uint64_t>(int64_t{-ENOSYS});  // the stub ends its process
    }
    // A tracee that is killed here is seen dying, and its descriptor is taken back then.
    if (ptrace(PTRACE_SETREGS, tid, nullptr, &registers) == 0) go_on(tid, 0, sent ? PTRACE_SYSCALL : PTRACE_CONT);
  }
}

bool Tracer::aim_at_donation(pid_t tid, user_regs_struct& registers) {
  const uint64_t at = (registers.rsp - kBelowStack) & ~uint64_t{15};
  Landing landing{};
  landing.header.msg_iov = reinterpret_cast<iovec*>(at + offsetof(Landing, part));
  landing.header.msg_iovlen = 1;
  landing.header.msg_control = reinterpret_cast<void*>(at + offsetof(Landing, control));
  landing.header.msg_controllen = sizeof landing.control;
  landing.part.iov_base = reinterpret_cast<void*>(at + offsetof(Landing, byte));
  landing.part.iov_len = 1;
  // Wherever a hostile stack pointer leads, it is the tracee's own memory that changes.
  for (size_t i = 0; i < sizeof landing; i += sizeof(long)) {
    long word;
    memcpy(&word, reinterpret_cast<const char*>(&landing) + i, sizeof word);
    if (ptrace(PTRACE_POKEDATA, tid, at + i, word) != 0) return false;
  }
  registers.orig_rax = SYS_recvmsg;
  registers.rdi = 0;
  registers.rsi = at;
  registers.rdx = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
  return true;
}

Result<int> Tracer::received_number(pid_t tid, const user_regs_struct& registers) {
  if (registers.rax != 1) return Err(EPROTO);
  errno = 0;
  const uint64_t at = registers.rsi + offsetof(Landing, control) + CMSG_LEN(0);
  const long word = ptrace(PTRACE_PEEKDATA, tid, at, nullptr);
  const int number = static_cast<int>(word & 0xffffffff);
  if (errno != 0 || number <= 0) return Err(EPROTO);
  return number;
}

// `tid`: stopped at the end of its recvmsg; 0: it died.
void Tracer::finish_donation(pid_t tid) {
  receiver_ = 0;
  // What was not taken must not reach the next one.
  char byte;
  (void)recv(receiving_.get(), &byte, 1, MSG_DONTWAIT);
  user_regs_struct registers;
  if (tid != 0 && ptrace(PTRACE_GETREGS, tid, nullptr, &registers) == 0) {
    // Wrong only if the guest interferes with its own stub.
    registers.rax = static_cast<uint64_t>(int64_t{received_number(tid, registers).value_or(-ENOSYS)});
    if (ptrace(PTRACE_SETREGS, tid, nullptr, &registers) == 0) go_on(tid, 0);
  }
  donate_next();
}

// ---- From other threads

Result<void> Tracer::enqueue(Command command) {
  bool first;
  {
    const std::lock_guard lock(mutex_);
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

Result<void> Tracer::reply(uint64_t id, int64_t value) { return enqueue({Command::kReply, id, value, {}}); }

Result<void> Tracer::approve(uint64_t id) { return enqueue({Command::kApprove, id, 0, {}}); }

Result<void> Tracer::reply_with_fd(uint64_t id, int fd, int) {
  // The caller's may be closed before it is sent.
  UniqueFd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own) return HostErr();
  return enqueue({Command::kDonate, id, 0, std::move(own)});
}

bool Tracer::report_deaths(std::function<void(pid_t)> died) {
  const std::lock_guard lock(mutex_);
  on_death_ = std::move(died);
  return true;
}

}  // namespace uks
