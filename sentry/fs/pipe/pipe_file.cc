// The files that are the ends of pipes and fifos.
#include <fcntl.h>
#include <sys/ioctl.h>

#include <fmt/format.h>

#include "sentry/fs/pipe/pipe.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"
#include "sentry/vfs/anon.h"

namespace uks {
namespace {

constexpr int kCapSysResource = 24;

// An opener of a fifo that waits for the other side. Its end is open already: that is what the
// other side looks for.
struct FifoOpen final : CallData {
  FifoOpen(Ref<Pipe> p, Ref<File> f, bool r, uint64_t o)
      : pipe(std::move(p)), file(std::move(f)), waits_for_reader(r), opens_before(o) {}
  std::optional<Result<Ref<File>>> continue_open(Task& task) override {
    if (done()) return std::exchange(file, {});
    const Errno e = task.block({{&pipe->open_queue, EPOLLIN}});
    if (!(e == kBlocked)) file = {};
    return Err(e);
  }
  bool done() const {
    return (waits_for_reader ? pipe->reader_opens() : pipe->writer_opens()) != opens_before;
  }
  Ref<Pipe> pipe;
  Ref<File> file;
  bool waits_for_reader;
  uint64_t opens_before;
};

// fifo_open() of fs/pipe.c.
Result<Ref<File>> open_end(Task& task, Path path, const Ref<Pipe>& pipe, const Ref<Inode>& inode,
                           int flags) {
  const int mode = flags & O_ACCMODE;
  const bool nonblocking = flags & O_NONBLOCK;
  if (mode == O_WRONLY && nonblocking && pipe->readers() == 0) return Err(ENXIO);
  auto file = make_ref<PipeFile>(std::move(path), flags, pipe, inode);
  if (mode == O_RDONLY && pipe->writers() == 0) {
    if (nonblocking) {
      file->hide_hup_until_writer();
      return file;
    }
  } else if (mode != O_WRONLY || pipe->readers() > 0) {
    return file;
  }
  const bool for_reader = mode == O_WRONLY;
  const uint64_t before = for_reader ? pipe->reader_opens() : pipe->writer_opens();
  task.call().data = std::make_unique<FifoOpen>(pipe, std::move(file), for_reader, before);
  const Errno e = task.block({{&pipe->open_queue, EPOLLIN}});
  if (!(e == kBlocked)) task.call().data.reset();
  return Err(e);
}

}  // namespace

PipeFile::PipeFile(Path path, int flags, Ref<Pipe> pipe, Ref<Inode> inode)
    : File(std::move(path), flags), pipe_(std::move(pipe)), inode_(std::move(inode)) {
  pipe_->add_end(readable(), writable());
}

PipeFile::~PipeFile() { pipe_->remove_end(readable(), writable()); }

Inode* PipeFile::inode() const { return inode_ ? inode_.get() : File::inode(); }

std::string PipeFile::anonymous_name() const {
  return inode_ ? fmt::format("pipe:[{}]", anon_inode_number(*inode_)) : std::string();
}

Result<size_t> PipeFile::read(Task&, IoSink& sink) { return pipe_->read(sink); }

Result<size_t> PipeFile::write(Task& task, IoSource& source) {
  auto n = pipe_->write(source, flags() & O_DIRECT);
  if (!n && n.error() == EPIPE) send_sigpipe(task);
  return n;
}

uint32_t PipeFile::poll_events() {
  uint32_t events = 0;
  if (readable()) {
    events |= pipe_->read_events();
    if (pipe_->writer_opens() == hup_after_) events &= ~uint32_t{EPOLLHUP};
  }
  if (writable()) events |= pipe_->write_events();
  return events;
}

Result<int64_t> PipeFile::ioctl(Task& task, uint32_t request, uint64_t arg) {
  if (request == FIONREAD) {
    TRY(task.copy_out(UserAddr{arg}, static_cast<int32_t>(pipe_->size())));
    return 0;
  }
  return Err(ENOTTY);
}

void send_sigpipe(Task& task) {
  SignalInfo info;
  info.signo = SIGPIPE;
  info.code = SI_USER;
  info.rt.pid = task.tgid();
  info.rt.uid = task.creds().ruid;
  task.kernel().send_signal(task, info);
}

Result<std::pair<Ref<File>, Ref<File>>> make_pipe(Task& task, int flags) {
  auto pipe = make_ref<Pipe>(task.kernel().pages);
  Ref<Inode> inode = make_anon_inode(task, S_IFIFO | 0600);
  Ref<File> reader =
      make_ref<PipeFile>(Path{}, O_RDONLY | (flags & (O_NONBLOCK | O_DIRECT)), pipe, inode);
  Ref<File> writer =
      make_ref<PipeFile>(Path{}, O_WRONLY | (flags & (O_NONBLOCK | O_DIRECT)), pipe, inode);
  return std::pair{std::move(reader), std::move(writer)};
}

Result<int64_t> pipe_fcntl(Task& task, File& file, int command, uint64_t arg) {
  if (file.kind() != FileKind::kPipe || (file.flags() & O_PATH)) return Err(EBADF);
  Pipe& pipe = static_cast<PipeFile&>(file).pipe();
  if (command == F_GETPIPE_SZ) return static_cast<int64_t>(pipe.capacity());
  if (command != F_SETPIPE_SZ) return Err(EINVAL);
  // The argument is an unsigned int (fcntl.c passes it on as such).
  const auto size =
      TRY(pipe.set_capacity(static_cast<uint32_t>(arg), task.creds().has_cap(kCapSysResource)));
  return static_cast<int64_t>(size);
}

Result<Ref<File>> PipeFile::reopen(Task& task, int flags) {
  if (path()) return File::reopen(task, flags);  // a fifo: by its name, with the checks of an open
  // Ends of an anonymous pipe never wait for each other (is_pipe in the kernel's fifo_open()).
  return Ref<File>(make_ref<PipeFile>(Path{}, flags, pipe_, inode_));
}

Result<Ref<File>> open_fifo(Task& task, Path path, Ref<RefCounted>& state_slot, int flags) {
  if (!state_slot) state_slot = make_ref<Pipe>(task.kernel().pages);
  return open_end(task, std::move(path), ref_cast<Pipe>(state_slot), nullptr, flags);
}

}  // namespace uks
