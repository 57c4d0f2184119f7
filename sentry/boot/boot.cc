#include "sentry/boot/boot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "platform/host/sentry_filter.h"
#include "platform/keeper/fds.h"
#include "platform/keeper/start.h"
#include "platform/ptrace/tracer.h"
#include "platform/trap/listener.h"
#include "sentry/boot/host_texts.h"
#include "sentry/boot/main.h"
#include "sentry/fs/host/caller.h"
#include "sentry/fs/host/host_file.h"
#include "sentry/fs/host/tty_node.h"
#include "sentry/task/close_later.h"
#include "sentry/task/exec.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"
#include "sentry/vfs/ops.h"
#include "sentry/vfs/permissions.h"
#include "sentry/vfs/resolve.h"
#include "sentry/vfs/setup.h"
#include "syscalls/dispatch.h"
#include "syscalls/strace.h"

namespace uks {
namespace {

constexpr unsigned kShards = 2;    // listeners: one for each core that guests are likely to use
constexpr unsigned kPoolSize = 3;  // fresh stubs at hand
constexpr uint64_t kAllCapabilities = (uint64_t{1} << 41) - 1;

std::string make_boot_id() {
  unsigned char b[16];
  (void)!getrandom(b, sizeof b, 0);
  b[6] = static_cast<unsigned char>((b[6] & 0x0f) | 0x40);
  b[8] = static_cast<unsigned char>((b[8] & 0x3f) | 0x80);
  std::string text;
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", b[i]);
  }
  return text;
}

}  // namespace

Boot::Boot(HostLayers layers) : layers_(layers), events_(kernel_) {}
Boot::~Boot() = default;

bool Boot::fail(const std::string& text, int status) {
  keeper_->send(keeper::Op::kMessage, 0, 1, text);
  keeper_->send(keeper::Op::kExit, 0, status << 8);
  return false;
}

Result<void> Boot::make_listened(std::vector<StubFamily>& families) {
  std::vector<Zygote> zygotes;
  const auto make = [&]() -> Result<void> {
    const auto filter = stub_filter(layout_.base + layout_.header.syscall_ip, HandOff::kListener);
    for (unsigned i = 0; i < kShards; i++)
      zygotes.push_back(TRY(begin_zygote(layout_, filter, HandOff::kListener)));
    for (Zygote& zygote : zygotes) TRY(finish_zygote(zygote));
    return {};
  };
  if (auto made = make(); !made) {
    for (Zygote& zygote : zygotes) abandon_zygote(zygote);
    return made;
  }
  for (Zygote& zygote : zygotes) {
    auto listener = std::make_unique<Listener>(std::move(zygote.listener));
    families.push_back({std::move(zygote), std::move(listener)});
  }
  return {};
}

Result<void> Boot::make_traced(std::vector<StubFamily>& families) {
  sigset_t news;
  sigemptyset(&news);
  sigaddset(&news, SIGCHLD);
  sigaddset(&news, SIGURG);
  sigprocmask(SIG_BLOCK, &news, nullptr);
  const auto filter = stub_filter(layout_.base + layout_.header.syscall_ip, HandOff::kTracer);
  Zygote zygote = TRY(begin_zygote(layout_, filter, HandOff::kTracer));
  auto tracer = Tracer::start(zygote);
  if (!tracer) {
    abandon_zygote(zygote);
    return Err(tracer.error());
  }
  TRY(finish_zygote(zygote));
  families.push_back({std::move(zygote), std::move(*tracer)});
  return {};
}

bool Boot::make_families(const std::string& name, std::vector<StubFamily>& families) {
  const bool any = name == "auto";
  std::string why;
  if (any || name == "trap") {
    const auto made = make_listened(families);
    if (made) return true;
    switch (const int error = made.error().value) {
      case EBUSY:
        why = "platform trap: another seccomp listener is already in place here (EBUSY)";
        break;
      case ENOSYS:
        why = "platform trap needs seccomp user notifications, which are not to be had here";
        break;
      case EINVAL:
        why = "platform trap needs Linux 5.19 or newer";
        break;
      case EAGAIN:
        return fail("the host refuses processes: a limit of processes is too low");
      default:
        return fail(fmt::format("internal: making a zygote failed: {}", strerror(error)));
    }
    if (!any) return fail(why + "; --platform ptrace works without, slower");
  }
  way_ = HandOff::kTracer;
  if (const auto made = make_traced(families); !made) {
    return fail(fmt::format("platform ptrace: tracing is refused here ({}){}{}",
                            strerror(made.error().value), why.empty() ? "" : "; ", why));
  }
  if (!why.empty())
    keeper_->send(keeper::Op::kMessage, 0, 0, why + ": using platform ptrace, which is slower");
  return true;
}

bool Boot::make_platform(const std::string& name) {
  auto layout = find_layout();
  if (!layout)
    return fail(fmt::format("internal: no room for the stub: {}", strerror(layout.error().value)));
  layout_ = std::move(*layout);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail("internal: no_new_privs is refused");
  // Before the zygotes: they have to be in the same domain (PITFALLS 18). Nothing is opened from
  // here on.
  enter_landlock(layers_);
  LOG_DEBUG("layers: ipc and uts namespaces {}, user namespace {}, landlock interface {}",
            layers_.ipc_and_uts_namespaces, layers_.user_namespace, layers_.landlock_abi);
  std::vector<StubFamily> families;
  if (!make_families(name, families)) return false;
  dispatcher_ = std::make_unique<Dispatcher>(kernel_, dispatch_call);
  platform_ = std::make_unique<TrapPlatform>(kernel_lock, *keeper_, layout_, std::move(families));
  kernel_.platform = platform_.get();
  static TrapPlatform* the_platform;
  the_platform = platform_.get();
  drop_kernel_lock = [] { the_platform->unlock_to_block(); };
  retake_kernel_lock = [] { the_platform->lock_again(); };
  kernel_.dispatcher = dispatcher_.get();
  kernel_.futexes = &futexes_;
  kernel_.events = &events_;
  kernel_.machine_boot_id = make_boot_id();
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
    kernel_.cpu_count = static_cast<unsigned>(CPU_COUNT(&cpus));
  kernel_.on_finished = [this](int status) { on_finished(status); };
  if (!events_.init()) return fail("internal: the event loop cannot be made");
  return true;
}

bool Boot::configure() {
  auto config = read_config(keeper::kConfigFd);
  if (!config) return fail("internal: the sentry's configuration is unreadable");
  close(keeper::kConfigFd);
  config_ = std::move(*config);
  config_.view.host_texts = std::move(host_texts_);
  kernel_.hostname = config_.hostname;
  if (config_.strace) {
    strace_ = std::make_unique<StraceWriter>(UniqueFd(keeper::kStraceFd));
    dispatcher_->strace = strace_.get();
  }
  return true;
}

bool Boot::make_view() {
  std::vector<UniqueFd> connections;
  for (int i = 0; i < keeper::kGoferConnections; i++)
    connections.emplace_back(keeper::kFirstGoferFd + i);
  gofer_ = std::make_unique<gofer::GoferClient>(std::move(connections));
  auto mounts = build_view(kernel_, config_.view, *gofer_);
  if (!mounts && gofer_->dead()) return fail("the gofer has given up: no sandbox");
  if (!mounts)
    return fail(
        fmt::format("internal: the file tree cannot be built: {}", strerror(mounts.error().value)));
  kernel_.mounts = std::move(*mounts);
  return true;
}

Result<void> Boot::set_up_task(Task& task) {
  ThreadGroup& group = task.group();
  Credentials creds;
  creds.ruid = creds.euid = creds.suid = creds.fsuid = config_.uid;
  creds.rgid = creds.egid = creds.sgid = creds.fsgid = config_.gid;
  creds.groups.assign(config_.groups.begin(), config_.groups.end());
  std::sort(creds.groups.begin(), creds.groups.end());
  creds.no_new_privs = config_.no_new_privs;
  creds.cap_bounding = kAllCapabilities;
  if (config_.uid == 0) creds.cap_permitted = creds.cap_effective = kAllCapabilities;
  task.set_creds(std::move(creds));
  task.nice = nice_;
  for (size_t i = 0; i < group.limits.size() && i < config_.rlimits.size(); i++) {
    group.limits[i] = {config_.rlimits[i].soft, config_.rlimits[i].hard};
  }
  for (int sig = 1; sig <= kSignalCount; sig++) {
    if (config_.ignored_signals & signal_bit(sig)) (*group.actions)[sig].handler = 1;
  }
  task.blocked_signals = config_.blocked_signals & ~kUnblockable;
  const Path root{kernel_.mounts->root(), kernel_.mounts->root()->root()};
  task.fs_context = make_ref<FsContext>(kernel_.mounts, root, root);
  task.fs_context->umask = config_.umask;
  task.fd_table = make_ref<FdTable>();
  task.fs_context->cwd = TRY(resolve(task, root, config_.workdir, kFollowLast | kMustBeDir));
  TRY(check_access(task.creds(), TRY(task.fs_context->cwd.inode()->getattr()),
                   kMayExec));  // as chdir(2)

  std::vector<Ref<HostFile>> streams;
  for (int fd = 0; fd < 3; fd++) {
    if (!config_.stdio_open[static_cast<size_t>(fd)]) continue;
    auto file = make_host_file(events_, UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 64)),
                               stdio_names_[static_cast<size_t>(fd)], streams);
    if (!file) return Err(file.error());
    streams.push_back(*file);
    (void)expose_terminal(task, **file, static_cast<unsigned>(fd));  // a name only
    TRY(task.fd_table->install_at(task, fd, *file, false));
  }
  for (const auto& stream : streams) {
    if (!group.session->terminal) adopt_terminal(group, *stream);
  }
  return {};
}

Result<int64_t> Boot::exec_first(Task& task) {
  const std::string& name = config_.argv[0];
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(name);
  } else {
    std::string path = "/usr/local/bin:/usr/bin:/bin";
    for (const std::string& variable : config_.env) {
      if (variable.starts_with("PATH=")) path = variable.substr(5);
    }
    size_t at = 0;
    while (at <= path.size() && !name.empty()) {
      const size_t end = std::min(path.find(':', at), path.size());
      const std::string dir = path.substr(at, end - at);
      candidates.push_back(dir.empty() ? name : dir + "/" + name);
      at = end + 1;
    }
  }
  Errno decisive{ENOENT};
  for (const std::string& candidate : candidates) {
    ExecRequest request;
    request.path = candidate;
    request.argv = config_.argv;
    request.envp = config_.env;
    auto result = exec_task(task, request);
    if (!result && result.error() == ENOEXEC) {
      // A script without #! line: execvp(3) gives it to the shell.
      request.path = "/bin/sh";
      request.argv = {"sh", candidate};
      request.argv.insert(request.argv.end(), config_.argv.begin() + 1, config_.argv.end());
      request.envp = config_.env;
      if (looks_like_text(task, candidate)) result = exec_task(task, request);
    }
    if (result || result.error() == kNoReply) return 0;
    if (result.error() == EACCES) decisive = result.error();
    if (result.error() == ENOENT || result.error() == ENOTDIR || result.error() == EACCES) continue;
    return result;
  }
  return Err(decisive);
}

bool Boot::looks_like_text(Task& task, const std::string& path) {
  auto file = open_exec(task, AT_FDCWD, path, 0);
  if (!file) return false;
  char bytes[256];
  BufferSink sink{std::span<char>(bytes)};
  const auto n = (*file)->pread(task, sink, 0);
  return n && memchr(bytes, 0, *n) == nullptr && (*n < 4 || memcmp(bytes, "\177ELF", 4) != 0);
}

bool Boot::start_first_process() {
  // The pool's first stub is usually there by now.
  kernel_lock.lock();
  while (platform_->pooled() == 0) {
    constexpr int kPatience = 10;  // seconds
    const uint64_t refills = dispatcher_->refills();
    kernel_.unlock_and_flush();
    if (!dispatcher_->wait_for_refill(refills, kPatience))
      return fail("no stub process came up: the host refuses processes, or is far too busy");
    kernel_lock.lock();
  }
  const Ref<ThreadGroup> group = kernel_.new_group(nullptr);
  group->pgid = group->pid;
  group->session = kernel_.find_group(1)->session;
  auto task = make_ref<Task>(kernel_, group, group->pid);
  kernel_.add_task(*task);
  if (auto r = set_up_task(*task); !r) {
    kernel_.unlock_and_flush();
    return fail(fmt::format("cannot enter {}: {}", config_.workdir, strerror(r.error().value)));
  }
  const auto result = exec_first(*task);
  if (result) platform_->keeper().send(keeper::Op::kReady);
  started_ = true;
  for (const keeper::Message& message : std::exchange(early_, {})) on_keeper(message);
  kernel_.unlock_and_flush();
  if (result) return true;
  const int error = result.error().value;
  const bool missing = error == ENOENT || error == ENOTDIR;
  return fail(
      fmt::format("cannot run '{}': {}", config_.argv[0],
                  missing && config_.argv[0].find('/') == std::string::npos ? "command not found"
                                                                            : strerror(error)),
      missing ? 127 : 126);
}

Result<void> Boot::start_threads() {
  TRY(start_closer());
  TRY(platform_->start(*dispatcher_, kPoolSize));
  // A second event thread, for when the first waits for a guest's memory or for the host.
  return start_thread([this] { events_.run(); });
}

int Boot::run(const std::string& platform) {
  signal(SIGPIPE, SIG_IGN);
  nice_ = getpriority(PRIO_PROCESS, 0);
  for (size_t fd = 0; fd < stdio_names_.size(); fd++) {
    char name[4096];
    const ssize_t n = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), name, sizeof name);
    if (n > 0 && name[0] == '/') stdio_names_[fd].assign(name, static_cast<size_t>(n));
  }
  host_texts_ = read_host_texts();
  watch_caller();
  keeper_ = std::make_unique<keeper::Channel>(UniqueFd(keeper::kKeeperFd));
  if (!make_platform(platform)) return 125;
  // From here on there are threads; the zygotes exist, and no guest runs before the filter is in
  // place.
  kernel_lock.lock();
  const auto started = start_threads();
  kernel_.unlock_and_flush();
  if (!started) {
    fail(fmt::format("the host refuses threads ({}): a limit of processes is too low",
                     strerror(started.error().value)));
    return 125;
  }
  if (!keeper::wait_for_start()) return 125;  // the keeper has said why
  kernel_lock.lock();
  const bool have_view = configure() && make_view();
  kernel_.unlock_and_flush();
  if (!have_view) return 125;
  if (auto r = install_sentry_filter(way_ == HandOff::kTracer); !r) {
    fail(fmt::format("internal: the sentry's filter was refused: {}", strerror(r.error().value)));
    return 125;
  }
  kernel_lock.lock();
  // Edge-triggered: EPOLLOUT is of interest only when messages wait for room.
  (void)events_.add(keeper_->fd(), EPOLLIN | EPOLLOUT | EPOLLET, *this);
  (void)events_.add(keeper_->news_fd(), EPOLLIN | EPOLLET, *this);
  kernel_.unlock_and_flush();
  if (!start_first_process()) {
    // The keeper ends us when it has heard; until then there is nothing to do.
    pause_until_killed();
  }
  events_.run();
  return 0;
}

void Boot::pause_until_killed() { events_.run(); }

void Boot::on_host_events(uint32_t) {
  keeper::Message message;
  while (keeper_->poll(message)) on_keeper(message);
  (void)keeper_->flush();
}

void Boot::on_keeper(const keeper::Message& message) {
  if (!started_) {  // a signal while the sandbox starts
    constexpr size_t kMany = 64;
    if (early_.size() < kMany) early_.push_back(message);
    return;
  }
  ThreadGroup* init = kernel_.init();
  if (!init) return;
  SignalInfo info;
  info.code = SI_USER;
  switch (message.op) {
    case keeper::Op::kSignal:
      if (message.value < 1 || message.value > kSignalCount) return;
      info.signo = message.value;
      if (message.value == SIGINT || message.value == SIGQUIT || message.value == SIGTSTP) {
        info.code = SI_KERNEL;
        if (signal_foreground(kernel_, message.value)) return;
        kernel_.send_signal_to_pgrp(init->pgid, info);
        return;
      }
      if (message.value == SIGCONT) {
        kernel_.send_signal_to_pgrp(init->pgid, info);
        return;
      }
      kernel_.send_signal(*init, info);
      return;
    case keeper::Op::kWindowSize:
      (void)signal_foreground(kernel_, SIGWINCH);
      return;
    case keeper::Op::kOrphaned:
      note_caller_is_orphaned();
      return;
    case keeper::Op::kTimeout:
      info.signo = SIGTERM;
      kernel_.send_signal(*init, info);
      return;
    default:
      return;
  }
}

void Boot::on_finished(int wait_status) {
  if (config_.summary)
    keeper_->send(keeper::Op::kSummary, 0, static_cast<int>(discarded_files(*kernel_.mounts)));
  keeper_->send(keeper::Op::kExit, 0, wait_status);
}

int sentry_main(const std::string& platform, HostLayers layers) {
  // Never destroyed: worker threads use it until the process ends.
  auto* boot = new Boot(layers);
  const int status = boot->run(platform);
  _exit(status);
}

}  // namespace uks
