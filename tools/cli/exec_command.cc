// Computes view and environment, starts gofer and sentry, and hands over to the keeper.
#include "tools/cli/exec_command.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "platform/keeper/fds.h"
#include "sentry/boot/config.h"
#include "tools/cli/environment.h"
#include "tools/cli/explain.h"
#include "tools/cli/gofer_config.h"
#include "tools/cli/host.h"
#include "tools/cli/keeper.h"
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

// Closes everything above 2 but the two named.
void close_inherited(UniqueFd& log, UniqueFd& strace) {
  constexpr int kAside = 1000;
  for (UniqueFd* fd : {&log, &strace}) {
    if (fd->valid()) fd->reset(::fcntl(fd->get(), F_DUPFD_CLOEXEC, kAside));
  }
  unsigned next = 3;
  int low = log.get(), high = strace.get();
  if (low > high) std::swap(low, high);
  for (const int keep : {low, high}) {
    if (keep < 0) continue;
    if (static_cast<unsigned>(keep) > next) ::close_range(next, static_cast<unsigned>(keep) - 1, 0);
    next = static_cast<unsigned>(keep) + 1;
  }
  ::close_range(next, ~0U, 0);
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
  config.platform = options.platform;
  config.strace = options.strace;
  config.log_level = options.log_level;
  config.quiet = options.quiet;
  config.summary = !options.quiet && (options.summary || ::isatty(STDERR_FILENO));
  return config;
}

int run_sandbox(const ExecOptions& options, const SandboxConfig& config,
                const std::string& gofer_config, SignalState signals, int log_fd, int strace_fd) {
  Terminal terminal;
  terminal.save();
  // Stubs whose sentry died become our children, not init's: we can find and kill them.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return fail_host("/dev/null", errno);
  auto gofer_file = make_config_file("uks-gofer", gofer_config);
  if (!gofer_file) return fail_host("internal: memfd", gofer_file.error().value);
  auto sentry_file = make_config_file("uks-sentry", encode_config(config));
  if (!sentry_file) return fail_host("internal: memfd", sentry_file.error().value);

  Role gofer{"gofer",
             {{null.get(), 0},
              {null.get(), 1},
              {STDERR_FILENO, 2},
              {gofer_file->get(), keeper::kConfigFd},
              {log_fd, keeper::kLogFd}}};
  Role sentry{
      "sentry",
      {{0, 0}, {1, 1}, {2, 2}, {sentry_file->get(), keeper::kConfigFd}, {log_fd, keeper::kLogFd}}};
  std::vector<UniqueFd> ends;
  for (int i = 0; i < keeper::kGoferConnections; ++i) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
      return fail_host("internal: socketpair", errno);
    ends.emplace_back(pair[0]);
    ends.emplace_back(pair[1]);
    gofer.fds.push_back({pair[0], keeper::kFirstGoferFd + i});
    sentry.fds.push_back({pair[1], keeper::kFirstGoferFd + i});
  }
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return fail_host("internal: socketpair", errno);
  UniqueFd keeper_end(pair[0]);
  UniqueFd sentry_end(pair[1]);
  sentry.fds.push_back({sentry_end.get(), keeper::kKeeperFd});
  if (options.strace) sentry.fds.push_back({strace_fd, keeper::kStraceFd});

  auto gofer_child = start_role(gofer);
  if (!gofer_child) return fail_host("internal: cannot start the gofer", gofer_child.error().value);
  auto sentry_child = start_role(sentry);
  if (!sentry_child)
    return fail_host("internal: cannot start the sentry",
                     sentry_child.error().value);  // the gofer sees its connections end
  ends.clear();
  sentry_end.reset();
  gofer_file->reset();
  sentry_file->reset();
  null.reset();

  Keeper watch({options.timeout_ms, options.quiet, options.summary}, terminal, std::move(signals),
               std::move(*sentry_child), std::move(*gofer_child), std::move(keeper_end));
  return watch.run();
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
  close_inherited(log, strace);

  const RealHost host;
  const View view = compute_view(options, host);
  Environment environment = compute_environment(host.environment, options, view.workdir,
                                                same_directory(host.variable("PWD"), view.workdir));
  if (options.explain) {
    const std::string text = explain(view, environment, options);
    for (const std::string& error : view.errors) print_notice(error);
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t n = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return fail_host("stdout", errno);
      done += static_cast<size_t>(n);
    }
    return view.errors.empty() ? 0 : kExitFailure;
  }
  if (!view.errors.empty()) return fail(view.errors.front());
  std::string bad_path;
  const auto gofer_config = encode_gofer_config(view, bad_path);
  if (!gofer_config) return fail(bad_path + ": paths that are not UTF-8 cannot be shown or hidden");
  if (!options.quiet) {
    for (const std::string& notice : view.notices) print_notice(notice);
  }
  auto signals = take_signals();
  if (!signals) return fail_host("internal: signals", signals.error().value);
  const SandboxConfig config =
      make_config(options, view, std::move(environment), *signals, stdio_open);
  const int log_fd = log ? log.get() : STDERR_FILENO;
  const int strace_fd = strace ? strace.get() : STDERR_FILENO;
  return run_sandbox(options, config, *gofer_config, std::move(*signals), log_fd, strace_fd);
}

}  // namespace uks::cli
