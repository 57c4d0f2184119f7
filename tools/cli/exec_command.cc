// Computes view and environment, starts gofer and sentry, and hands over to the keeper.
#include "tools/cli/exec_command.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "platform/base/close_descriptors.h"
#include "platform/host/sanitizer_calls.h"
#include "platform/keeper/fds.h"
#include "platform/keeper/start.h"
#include "sentry/boot/config.h"
#include "tools/cli/environment.h"
#include "tools/cli/explain.h"
#include "tools/cli/gofer_config.h"
#include "tools/cli/host.h"
#include "tools/cli/keeper.h"
#include "tools/cli/leftovers.h"
#include "tools/cli/notice.h"
#include "tools/cli/view_policy.h"

namespace uks::cli {
namespace {

int fail(const std::string& line) {
  print_notice(line);
  return kExitFailure;
}

int fail_host(const std::string& what, int error) {
  return fail(what + ": " + std::strerror(error));
}

// Fills closed standard streams with /dev/null, so that nothing of ours takes their numbers.
// Returns which were open.
std::array<bool, 3> fill_standard_streams() {
  std::array<bool, 3> open{};
  for (int fd = 0; fd < 3; ++fd) {
    open[static_cast<size_t>(fd)] = ::fcntl(fd, F_GETFD) >= 0;
    if (!open[static_cast<size_t>(fd)])
      ::open("/dev/null", O_RDWR);  // the lowest free number is `fd`
  }
  return open;
}

// Opened before all other inherited descriptors are closed: the name may be /dev/fd/N.
Result<UniqueFd> open_output(const std::string& path) {
  UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666));
  if (!fd) return HostErr();
  return fd;
}

// Closes everything above 2 but the two named (-1: none).
void close_inherited(int log_fd, int strace_fd) {
  unsigned next = 3;
  for (const int keep : {std::min(log_fd, strace_fd), std::max(log_fd, strace_fd)}) {
    if (keep < 0) continue;
    const auto number = static_cast<unsigned>(keep);
    if (number > next) close_descriptors(next, number - 1);
    next = number + 1;
  }
  close_descriptors(next);
}

// Without filters every role would say so, each in words of its own. Not to be had: ENOSYS or
// EPERM.
bool has_seccomp() {
  const uint32_t action = SECCOMP_RET_KILL_PROCESS;
  return ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

bool same_directory(const std::string& a, const std::string& b) {
  struct stat x, y;
  return !a.empty() && ::stat(a.c_str(), &x) == 0 && ::stat(b.c_str(), &y) == 0 &&
         x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

SandboxConfig make_config(const ExecOptions& options, const View& view, Environment environment,
                          const SignalState& signals, const std::array<bool, 3>& stdio_open) {
  SandboxConfig config;
  config.argv = options.command;
  config.env = std::move(environment.variables);
  config.workdir = view.workdir;
  config.hostname = options.hostname;
  config.view = view.config;
  config.uid = view.identity.uid;
  config.gid = view.identity.gid;
  config.groups = view.identity.groups;
  config.virtual_root = view.identity.virtual_root;
  config.no_new_privs = !(options.user && options.user->uid == 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  config.umask = mask;
  config.ignored_signals = signals.ignored;
  config.blocked_signals = signals.blocked;
  for (size_t i = 0; i < config.rlimits.size(); ++i) {
    rlimit limit;
    if (::getrlimit(static_cast<__rlimit_resource_t>(i), &limit) != 0)
      limit = {RLIM_INFINITY, RLIM_INFINITY};
    config.rlimits[i] = {limit.rlim_cur, limit.rlim_max};
  }
  config.stdio_open = stdio_open;
  config.strace = options.strace;
  config.quiet = options.quiet;
  config.summary = !options.quiet && (options.summary || ::isatty(STDERR_FILENO));
  return config;
}

// The processes of a sandbox, waiting for their configurations.
struct Started {
  UniqueFd gofer_config, sentry_config;
  UniqueFd start;  // the pipe's writing end
  UniqueFd sentry_socket;
  Role gofer_role{"gofer", {}}, sentry_role{"sentry", {}};
  Child gofer, sentry;
  Guard guard;
};

Result<std::pair<UniqueFd, UniqueFd>> make_socket_pair() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return HostErr();
  return std::pair(UniqueFd(pair[0]), UniqueFd(pair[1]));
}

// Starts the roles before the view is known: their start-up and its computation run side by side.
// Also after a failure there may be processes to end.
Result<void> start_roles(const ExecOptions& options, int log_fd, int strace_fd, Started& started) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return HostErr();
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return HostErr();
  const UniqueFd start_end(pipe[0]);
  started.start.reset(pipe[1]);
  started.gofer_config = TRY(make_config_file("uks-gofer"));
  started.sentry_config = TRY(make_config_file("uks-sentry"));
  auto [keeper_end, sentry_end] = TRY(make_socket_pair());
  started.sentry_socket = std::move(keeper_end);

  Role& gofer = started.gofer_role;
  gofer.fds = {{null.get(), 0},          {null.get(), 1},
               {STDERR_FILENO, 2},       {started.gofer_config.get(), keeper::kConfigFd},
               {log_fd, keeper::kLogFd}, {start_end.get(), keeper::kStartFd}};
  Role& sentry = started.sentry_role;
  sentry.fds = {{0, 0},
                {1, 1},
                {2, 2},
                {started.sentry_config.get(), keeper::kConfigFd},
                {log_fd, keeper::kLogFd},
                {sentry_end.get(), keeper::kKeeperFd},
                {start_end.get(), keeper::kStartFd}};
  if (strace_fd >= 0) sentry.fds.push_back({strace_fd, keeper::kStraceFd});
  std::vector<UniqueFd> ends;
  for (int i = 0; i < keeper::kGoferConnections; ++i) {
    auto [gofer_side, sentry_side] = TRY(make_socket_pair());
    gofer.fds.push_back({gofer_side.get(), keeper::kFirstGoferFd + i});
    sentry.fds.push_back({sentry_side.get(), keeper::kFirstGoferFd + i});
    ends.push_back(std::move(gofer_side));
    ends.push_back(std::move(sentry_side));
  }
  // There when the sentry looks: were it to wait for it, it would often lose its processor.
  TRY(keeper::send_preparation(started.sentry_socket.get(), {options.platform, options.log_level}));
  // The sentry has more to do before it can run anything.
  started.sentry = TRY(start_role(sentry));
  started.gofer = TRY(start_role(gofer));
  // Before a stub can run guest code, which configure() allows, and might disarm its PDEATHSIG:
  // from then on the guard alone is sure to end it. Zygotes and their helpers, which are our own
  // code, end with the sentry.
  started.guard = TRY(start_guard(started.sentry.pid));
  return {};
}

Result<void> configure(Started& started, const std::string& gofer_config,
                       const std::string& sentry_config) {
  TRY(fill_config_file(started.gofer_config.get(), gofer_config));
  TRY(fill_config_file(started.sentry_config.get(), sentry_config));
  if (::write(started.start.get(), "..", 2) != 2) return HostErr();  // a byte for each
  started.start.reset();
  started.gofer_config.reset();
  started.sentry_config.reset();
  return {};
}

// Nothing of it is left when this returns `status`.
int give_up(Started& started, int status) {
  end_sandbox(started.sentry, started.gofer, started.guard);
  return status;
}

int explain_view(const ExecOptions& options, const View& view, const Environment& environment) {
  const std::string text = explain(view, environment, options);
  for (const std::string& error : view.errors) print_notice(error);
  if (!print_all(text)) return kExitFailure;
  return view.errors.empty() ? 0 : kExitFailure;
}

}  // namespace

int exec_command(ExecOptions options) {
  const std::array<bool, 3> stdio_open = fill_standard_streams();
  UniqueFd log, strace;
  if (!options.log_file.empty()) {
    auto fd = open_output(options.log_file);
    if (!fd) return fail_host("--log-file " + options.log_file, fd.error().value);
    log = std::move(*fd);
  }
  if (options.strace && !options.strace_file.empty()) {
    auto fd = open_output(options.strace_file);
    if (!fd) return fail_host("--strace=" + options.strace_file, fd.error().value);
    strace = std::move(*fd);
  }
  close_inherited(log.get(), strace.get());
  if (!options.explain && !has_seccomp()) {
    return fail(
        "seccomp filters are not to be had here (inside another sandbox?), and nothing is safe "
        "without them");
  }
  if (const std::string low = options.explain ? "" : too_low_limit(); !low.empty())
    return fail(low);

  Terminal terminal;
  terminal.save();
  auto signals = take_signals();
  if (!signals) return fail_host("internal: signals", signals.error().value);
  Started started;
  if (!options.explain) {
    // Stubs whose sentry died become our children, not init's: we can find and kill them.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    const int strace_fd = strace ? strace.get() : STDERR_FILENO;
    const auto done = start_roles(options, log ? log.get() : STDERR_FILENO,
                                  options.strace ? strace_fd : -1, started);
    if (!done) {
      const int status = fail_host("the host refuses to start a sandbox", done.error().value);
      return give_up(started, status);
    }
  }

  const RealHost host;
  const View view = compute_view(options, host);
  const bool pwd_is_workdir = same_directory(host.variable("PWD"), view.workdir);
  Environment environment =
      compute_environment(host.environment, options, view.workdir, pwd_is_workdir);
  if (options.explain) return explain_view(options, view, environment);
  if (!view.errors.empty()) return give_up(started, fail(view.errors.front()));
  const std::string gofer_config = encode_gofer_config(view, !options.unprotect);
  if (gofer_config.empty()) {
    return give_up(started, fail("more than 8192 rules: too many paths are named or hidden"));
  }
  if (!options.quiet) {
    for (const std::string& notice : view.notices) print_notice(notice);
  }
  const SandboxConfig config =
      make_config(options, view, std::move(environment), *signals, stdio_open);
  if (auto done = configure(started, gofer_config, encode_config(config)); !done) {
    const int status = fail_host("internal: the sandbox cannot be configured", done.error().value);
    return give_up(started, status);
  }
  Keeper watch({options.timeout_ms, options.quiet, options.summary}, terminal, std::move(*signals),
               std::move(started.sentry), std::move(started.gofer),
               std::move(started.sentry_socket), std::move(started.guard));
  const int status = watch.run();
  // All is said, and all processes are gone: what is left is memory, which the kernel frees faster.
  if (!kSanitized) ::_exit(status);
  return status;
}

}  // namespace uks::cli
