// The keeper's event loop. The sentry is not trusted: its requests are checked, its texts escaped
// and counted, and it cannot make the keeper block or grow.
#include "tools/cli/keeper.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "platform/base/fd_message.h"
#include "tools/cli/args.h"
#include "tools/cli/child_files.h"
#include "tools/cli/exit_status.h"
#include "tools/cli/leftovers.h"
#include "tools/cli/notice.h"

namespace uks::cli {
namespace {

using keeper::Message;
using keeper::Op;

constexpr auto kGraceAfterTimeout = std::chrono::seconds(1);
constexpr size_t kMaxOutbox = 256;

std::string text_of(const Message& message) {
  return std::string(message.text, ::strnlen(message.text, sizeof message.text));
}

}  // namespace

Keeper::Keeper(KeeperOptions options, Terminal& terminal, SignalState signals, Child sentry,
               Child gofer, UniqueFd socket, Guard guard)
    : options_(options),
      terminal_(terminal),
      signals_(std::move(signals)),
      sentry_(std::move(sentry)),
      gofer_(std::move(gofer)),
      socket_(std::move(socket)),
      guard_(std::move(guard)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  for (const int fd : {signals_.fd.get(), sentry_.pidfd.get(), gofer_.pidfd.get(), socket_.get()}) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  if (options_.timeout_ms > 0)
    timeout_ = Clock::now() + std::chrono::milliseconds(options_.timeout_ms);
}

int Keeper::run() {
  while (!exit_code_) serve_once();
  tear_down();
  terminal_.restore();
  return *exit_code_;
}

void Keeper::serve_once() {
  epoll_event events[4];
  const int count = ::epoll_wait(epoll_.get(), events, 4, wait_milliseconds());
  if (count < 0 && errno != EINTR)
    return fail("internal: epoll_wait: " + std::string(std::strerror(errno)));
  bool ended = false;
  for (int i = 0; i < count && !exit_code_; ++i) {
    const int fd = events[i].data.fd;
    if (fd == signals_.fd.get()) {
      handle_signals();
    } else if (fd == socket_.get()) {
      if (events[i].events & EPOLLOUT) flush_outbox();
      if (events[i].events & ~EPOLLOUT) read_messages();
    } else {
      ended = true;
    }
  }
  if (ended && !exit_code_) child_ended();
  if (!exit_code_) check_deadlines();
}

int Keeper::wait_milliseconds() const {
  const auto next = deadline_ ? deadline_ : timeout_;
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

void Keeper::check_deadlines() {
  const auto now = Clock::now();
  if (timeout_ && now >= *timeout_) {
    timeout_.reset();
    deadline_ = now + kGraceAfterTimeout;
    send(Op::kTimeout, 0);
  }
  if (deadline_ && now >= *deadline_) finish(kExitTimeout);
}

void Keeper::read_messages() {
  // Bounded, so that a sentry that never stops talking does not keep signals and deadlines waiting.
  for (int i = 0; i < 64 && !exit_code_ && socket_open_; ++i) {
    Message message;
    UniqueFd attached;
    const auto n = receive_message(socket_.get(), &message, sizeof message, attached, MSG_DONTWAIT);
    if (!n && n.error() == EAGAIN) return;
    // Said before the last words of a sentry that has not read all of ours.
    if (!n && n.error() == ECONNRESET) continue;
    if (n ? *n == 0 : n.error() != EMSGSIZE) {
      // The sentry is gone or about to be: its pidfd tells how it ended.
      socket_open_ = false;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
      return;
    }
    if (!n || *n != sizeof message)
      return fail("internal: the sentry sent a message of a wrong size");
    handle(message, attached);
  }
}

void Keeper::handle(const Message& message, const UniqueFd& attached) {
  switch (message.op) {
    case Op::kReady:
      return;
    case Op::kKill:
      return handle_kill(message);
    case Op::kOpenMem:
    case Op::kOpenMaps:
      return answer(message, message.op == Op::kOpenMem
                                 ? open_child_mem(message.pid, sentry_.pid)
                                 : open_child_text(message.pid, sentry_.pid, text_of(message)));
    case Op::kReopen:
      return answer(message, reopen_memfd(attached.get()));
    case Op::kExit:
      return finish(deadline_ ? kExitTimeout : exit_code_of(message.value));
    case Op::kStopped:
      return handle_stopped(message.value);
    case Op::kMessage:
      // A line that says why the command cannot run is no notice: --quiet does not hide it.
      error_told_ = error_told_ || message.value != 0;
      if ((!options_.quiet || message.value != 0) && messages_left_ > 0) {
        --messages_left_;
        print_notice(text_of(message));
      }
      return;
    case Op::kSummary:
      if (!options_.quiet && message.value > 0 && (options_.summary || ::isatty(STDERR_FILENO))) {
        print_notice(std::to_string(message.value) + (message.value == 1 ? " file" : " files") +
                     " changed outside the workspace " + (message.value == 1 ? "was" : "were") +
                     " discarded");
      }
      return;
    default:
      return fail("internal: the sentry sent an unknown message");
  }
}

void Keeper::handle_kill(const Message& message) {
  // No answer: a process that is gone already, or is none of the sentry's, is left alone.
  const int signo = message.value == 0 ? SIGKILL : message.value;
  [[maybe_unused]] const auto sent = signal_child(message.pid, sentry_.pid, signo);
}

void Keeper::answer(const Message& message, Result<UniqueFd> fd) {
  if (fd) {
    send(Op::kMem, 0, message.seq, std::move(*fd));
  } else {
    send(Op::kMem, fd.error().value, message.seq);
  }
}

void Keeper::handle_stopped(int signo) {
  terminal_.leave();
  const bool could = stop_self(signo);
  if (!could) send(Op::kOrphaned, 0);
  terminal_.enter();
  send(Op::kWindowSize, 0);
  send(Op::kSignal, SIGCONT);
}

void Keeper::handle_signals() {
  signalfd_siginfo info;
  while (!exit_code_ && ::read(signals_.fd.get(), &info, sizeof info) == sizeof info) {
    const int signo = static_cast<int>(info.ssi_signo);
    if (signo == SIGCHLD) {
      check_guard();
      reap_orphans({sentry_.pid, gofer_.pid, guard_.child.pid});
    } else if (signo == SIGWINCH) {
      send(Op::kWindowSize, 0);
    } else {
      send(Op::kSignal, signo);
    }
  }
}

void Keeper::send(Op op, int32_t value, uint32_t seq, UniqueFd fd) {
  if (!socket_open_) return;
  // A sentry that does not read loses what does not fit; it harms only its own guest.
  if (outbox_.size() >= kMaxOutbox) return;
  Outgoing outgoing = {};
  outgoing.message.op = op;
  outgoing.message.value = value;
  outgoing.message.seq = seq;
  outgoing.fd = std::move(fd);
  outbox_.push_back(std::move(outgoing));
  flush_outbox();
}

void Keeper::flush_outbox() {
  while (!outbox_.empty()) {
    Outgoing& next = outbox_.front();
    const auto sent = uks::send_message(socket_.get(), &next.message, sizeof next.message,
                                        next.fd.get(), MSG_DONTWAIT);
    if (!sent &&
        (sent.error() == EAGAIN || sent.error() == ENOBUFS || sent.error() == ETOOMANYREFS))
      break;
    outbox_.pop_front();  // sent, or nobody is there to read it
  }
  watch_socket();
}

void Keeper::watch_socket() {
  if (!socket_open_) return;
  epoll_event event = {};
  event.events = EPOLLIN | (outbox_.empty() ? 0u : static_cast<unsigned>(EPOLLOUT));
  event.data.fd = socket_.get();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
}

// Without it the promise that nothing outlives us would not hold.
void Keeper::check_guard() {
  siginfo_t info = {};
  if (::waitid(P_PID, static_cast<id_t>(guard_.child.pid), &info, WEXITED | WNOHANG | WNOWAIT) ==
          0 &&
      info.si_pid != 0)
    fail("internal: the guard was killed");
}

void Keeper::child_ended() {
  // Its last words may lie in the socket still.
  read_messages();
  if (exit_code_) return;
  // Reaped by tear_down() alone: until then its number stands for its group, which the guard may
  // have to kill.
  siginfo_t info = {};
  if (::waitid(P_PID, static_cast<id_t>(sentry_.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid != 0) {
    if (info.si_code != CLD_EXITED)
      return fail("internal: the sentry was killed by signal " + std::to_string(info.si_status));
    if (error_told_ && info.si_status != 0) return finish(info.si_status);
    return fail("internal: the sentry ended with status " + std::to_string(info.si_status));
  }
  info = {};
  if (::waitid(P_PID, static_cast<id_t>(gofer_.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0)
    return;
  // A gofer that ends by itself does so because the sentry's ends of its connections are gone. Give
  // the sentry the time to be seen dying, so that the message names the cause.
  if (info.si_code == CLD_EXITED && info.si_status == 0) {
    for (int i = 0; i < 100; ++i) {
      siginfo_t other = {};
      ::waitid(P_PID, static_cast<id_t>(sentry_.pid), &other, WEXITED | WNOHANG | WNOWAIT);
      if (other.si_pid != 0) return child_ended();
      ::usleep(1000);
      read_messages();
      if (exit_code_) return;
    }
  }
  if (info.si_code == CLD_EXITED && info.si_status == kExitFailure)
    return finish(kExitFailure);  // it has said why
  if (info.si_code == CLD_EXITED) {
    return fail("internal: the gofer ended with status " + std::to_string(info.si_status));
  }
  fail("internal: the gofer was killed by signal " + std::to_string(info.si_status));
}

void Keeper::finish(int code) { exit_code_ = code; }

void Keeper::fail(const std::string& line) {
  print_notice(line);
  finish(kExitFailure);
}

void Keeper::tear_down() {
  socket_.reset();
  end_sandbox(sentry_, gofer_, guard_);
}

}  // namespace uks::cli
