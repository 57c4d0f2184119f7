// Bytes through a pseudo terminal, and the comings and goings of its ends (drivers/tty/pty.c).
#include "sentry/fs/devpts/pty.h"

#include <signal.h>

#include "sentry/fs/devpts/devpts.h"
#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"

namespace uks {
namespace {

constexpr uint32_t kIn = EPOLLIN | EPOLLRDNORM;
constexpr uint32_t kOut = EPOLLOUT | EPOLLWRNORM;
constexpr MonotonicNs kVtimeUnit = 100'000'000;
// Bytes typed in one go before others may run.
constexpr size_t kTypeChunk = 1 << 16;

}  // namespace

Pty::Pty(Kernel& kernel, Ref<DevptsRoot> root, int index)
    : kernel_(kernel), root_(std::move(root)), index_(index) {}

Pty::~Pty() = default;

Result<Ref<File>> Pty::open_again(Task&, Path path, int flags) {
  return open_slave(std::move(path), flags);
}

// pty_open().
Result<Ref<File>> Pty::open_slave(Path path, int flags) {
  if (hung_up_ || locked_) return Err(EIO);
  return make_ref<PtyFile>(std::move(path), flags, Ref<Pty>(this), false);
}

Result<Ref<File>> Pty::open_as_node(Task& task, Path path, int flags) {
  Ref<File> file = TRY(open_slave(std::move(path), flags & ~O_NOCTTY));
  if (!(flags & O_NOCTTY)) claim_on_open(task, *file);
  return file;
}

void Pty::slave_opened() {
  ++slaves_;
  slave_gone_ = false;
}

void Pty::slave_closed() {
  if (--slaves_ > 0 || hung_up_) return;
  slave_gone_ = true;
  master_queue.wake(EPOLLHUP | kIn | kOut);
}

void Pty::master_closed() {
  hung_up_ = true;
  root_->forget(index_);
  line_.flush_input();
  line_.flush_output();
  slave_queue.wake(EPOLLHUP | EPOLLERR | kIn | kOut);
  hang_up(kernel_);
}

// The status byte leads in packet mode (TIOCPKT, tty_ioctl(2)): 0 means that data follows.
Result<size_t> Pty::read_master(IoSink& sink) {
  if (sink.remaining() == 0) return 0;
  size_t header = 0;
  if (packet_mode_ && packet_status_ != 0) {
    TRY(sink.write(&packet_status_, 1));
    packet_status_ = 0;
    return 1;
  }
  const std::string& output = line_.output();
  if (output.empty()) return slave_gone_ ? Err(EIO) : Err(EAGAIN);
  if (packet_mode_) {
    header = TRY(sink.write("", 1));
    if (sink.remaining() == 0) return header;
  }
  const size_t n = TRY(sink.write(output.data(), output.size()));
  line_.consume_output(n);
  slave_queue.wake(kOut);
  return header + n;
}

Result<size_t> Pty::write_master(IoSource& source) {
  size_t done = 0;
  while (source.remaining() > 0 && done < kTypeChunk) {
    const size_t room = line_.input_room();
    if (room == 0) break;
    auto bytes = source.peek(room);
    if (!bytes) {
      if (done == 0) return Err(bytes.error());
      break;
    }
    type({bytes->data(), bytes->size()});
    done += bytes->size();
    source.advance(bytes->size());
  }
  if (done == 0 && source.remaining() > 0) return Err(EAGAIN);
  return done;
}

void Pty::type(std::string_view bytes) {
  const size_t shown = line_.output().size();
  const bool was_stopped = line_.stopped();
  std::vector<int> signals;
  for (const char c : bytes) {
    const int signo = line_.receive(c);
    if (signo == 0) continue;
    // Repetitions are one: standard signals do not queue.
    if (signals.empty() || signals.back() != signo) signals.push_back(signo);
    if (!(line_.termios().lflag & NOFLSH))
      set_packet_status(TIOCPKT_FLUSHREAD | TIOCPKT_FLUSHWRITE);
  }
  if (line_.stopped() != was_stopped) {
    if (line_.stopped()) {
      set_packet_status(TIOCPKT_STOP, TIOCPKT_START);
    } else {
      set_packet_status(TIOCPKT_START, TIOCPKT_STOP);
    }
  }
  if (line_.output().size() != shown) master_queue.wake(kIn);
  uint32_t events = line_.readable_bytes() > 0 || line_.line_ready() ? kIn : 0;
  if (line_.output_room() > 0) events |= kOut;
  if (events) slave_queue.wake(events);
  for (const int signo : signals) signal_foreground(kernel_, signo);
}

void Pty::set_packet_status(uint8_t add, uint8_t drop) {
  if (!packet_mode_) return;
  packet_status_ = static_cast<uint8_t>((packet_status_ & ~drop) | add);
  master_queue.wake(EPOLLPRI | kIn);
}

// Whether a read goes on: VMIN and VTIME as n_tty_read() takes them. False: it returns 0.
Result<bool> Pty::input_ready(Task& task, const File& file, size_t wanted) {
  if (line_.canonical()) {
    if (line_.line_ready()) return true;
    return Err(EAGAIN);
  }
  const size_t have = line_.readable_bytes();
  const size_t minimum = line_.termios().cc[VMIN];
  const MonotonicNs time = line_.termios().cc[VTIME] * kVtimeUnit;
  auto& call = task.call();
  if (minimum == 0) {
    if (have > 0) return true;
    if (time == 0) return false;
    if (file.nonblocking()) return Err(EAGAIN);
    if (call.timed_out) return false;
    if (!call.deadline) call.deadline = monotonic_now() + time;
    return Err(task.block({{&slave_queue, EPOLLIN}}, call.deadline));
  }
  if (have >= std::min(minimum, wanted)) return true;
  if (have == 0) return Err(EAGAIN);
  if (file.nonblocking()) return true;
  if (time == 0) return Err(EAGAIN);
  // The time runs from the last byte.
  if (call.progress != have) {
    call.progress = have;
    call.deadline = monotonic_now() + time;
  } else if (call.timed_out) {
    return true;
  }
  return Err(task.block({{&slave_queue, EPOLLIN}}, call.deadline));
}

Result<size_t> Pty::read_slave(Task& task, const File& file, IoSink& sink) {
  if (hung_up_) return 0;
  TRY(check_background(task, SIGTTIN));
  if (sink.remaining() == 0) return 0;
  if (!TRY(input_ready(task, file, sink.remaining()))) return 0;
  size_t used = 0;
  const std::string bytes = line_.peek(sink.remaining(), used);
  size_t n = 0;
  if (!bytes.empty()) n = TRY(sink.write(bytes.data(), bytes.size()));
  line_.drop(n == bytes.size() ? used : n);
  master_queue.wake(kOut);
  return n;
}

Result<size_t> Pty::write_slave(Task& task, IoSource& source) {
  if (hung_up_) return Err(EIO);
  if (line_.termios().lflag & TOSTOP) TRY(check_background(task, SIGTTOU));
  size_t done = 0;
  while (source.remaining() > 0) {
    const size_t room = line_.output_room();
    if (room == 0) break;
    // As tty_write(): a piece that cannot be read whole is not written.
    char piece[2048];
    const size_t wanted = std::min({room, source.remaining(), sizeof piece});
    auto n = source.read(piece, wanted);
    if (n && *n < wanted) n = Err(EFAULT);
    if (!n) {
      if (done == 0) return Err(n.error());
      break;
    }
    line_.write({piece, *n});
    done += *n;
  }
  if (done > 0) master_queue.wake(kIn);
  if (done == 0 && source.remaining() > 0) return Err(EAGAIN);
  return done;
}

uint32_t Pty::master_events() const {
  uint32_t events = slave_gone_ ? uint32_t{EPOLLHUP} : 0;
  if (!line_.output().empty()) events |= kIn;
  if (packet_mode_ && packet_status_ != 0) events |= kIn | EPOLLPRI;
  if (line_.input_room() > 0) events |= kOut;
  return events;
}

// hung_up_tty_poll(), n_tty_poll().
uint32_t Pty::slave_events() const {
  if (hung_up_) return kIn | kOut | EPOLLERR | EPOLLHUP;
  uint32_t events = line_.output_room() > 0 ? kOut : 0;
  if (line_.canonical()) {
    if (line_.line_ready()) events |= kIn;
    return events;
  }
  const auto& cc = line_.termios().cc;
  const size_t needed = cc[VTIME] == 0 && cc[VMIN] > 0 ? cc[VMIN] : 1;
  if (line_.readable_bytes() >= needed) events |= kIn;
  return events;
}

PtyFile::PtyFile(Path path, int flags, Ref<Pty> pty, bool master)
    : File(std::move(path), flags), pty_(std::move(pty)), master_(master) {
  if (!master_) pty_->slave_opened();
}

PtyFile::~PtyFile() {
  if (master_) {
    pty_->master_closed();
  } else {
    pty_->slave_closed();
  }
}

Result<size_t> PtyFile::read(Task& task, IoSink& sink) {
  return master_ ? pty_->read_master(sink) : pty_->read_slave(task, *this, sink);
}

Result<size_t> PtyFile::write(Task& task, IoSource& source) {
  const Ref<Pty> pty = pty_;
  if (!master_) return pty->write_slave(task, source);
  // An unfinished line swallows any amount: others run in between, and signals end it.
  if (task.call().progress > 0) {
    if (task.has_deliverable_signal()) return 0;
    yield_kernel_lock();
    if (task.dead) return 0;
  }
  return pty->write_master(source);
}

uint32_t PtyFile::poll_events() { return master_ ? pty_->master_events() : pty_->slave_events(); }

Result<int64_t> PtyFile::ioctl(Task& task, uint32_t request, uint64_t arg) {
  return pty_->ioctl(task, *this, master_, request, arg);
}

}  // namespace uks
