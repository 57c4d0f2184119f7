// The gofer process from its configuration to its end.
#include "gofer/server/main.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gofer/server/config.h"
#include "gofer/server/sandbox.h"
#include "gofer/server/server.h"
#include "platform/base/log.h"

namespace uks::gofer {
namespace {

constexpr int kFailed = 125;
constexpr size_t kStackSize = 512 << 10;  // handlers hold a directory buffer of 32 KiB at most

int fail(std::string_view what) {
  std::string line = fmt::format("uks: gofer: {}\n", what);
  (void)!::write(2, line.data(), line.size());
  return kFailed;
}

bool read_all(int fd, std::string& text) {
  char buffer[16384];
  off_t at = 0;
  while (text.size() < kMaxConfig) {
    ssize_t size = ::pread(fd, buffer, sizeof(buffer), at);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return false;
    if (size == 0) return true;
    text.append(buffer, static_cast<size_t>(size));
    at += size;
  }
  return false;
}

// Threads exist before the filter is installed, so that it need not allow making them; none of them
// reads a request before it is.
struct Crew {
  Server& server;
  std::mutex mutex;
  std::condition_variable changed;
  size_t arrived = 0;
  bool open = false;

  void wait_for_start() {
    std::unique_lock lock(mutex);
    ++arrived;
    changed.notify_all();
    changed.wait(lock, [this] { return open; });
  }
};

struct Worker {
  Crew* crew;
  int socket;
  pthread_t thread;
};

void* run_worker(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  worker->crew->wait_for_start();
  worker->crew->server.serve(worker->socket);
  ::close(worker->socket);  // whatever ended it: who waits for an answer there hears of it
  return nullptr;
}

}  // namespace

int gofer_main(int config_fd, std::span<const int> connections, int log_fd) {
  if (connections.empty()) return fail("no connections");
  // Re-armed after the keeper did it: whoever starts a gofer otherwise gets the same promise.
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  set_up_logging("gofer", log_fd, "warning");
  std::string text, problem;
  if (!read_all(config_fd, text)) return fail("cannot read the configuration");
  Config config;
  if (!parse_config(text, config, problem)) return fail(fmt::format("configuration: {}", problem));
  std::unique_ptr<Server> server = Server::create(std::move(config), problem);
  if (!server) return fail(problem);

  std::vector<int> keep = server->descriptors();
  keep.insert(keep.end(), connections.begin(), connections.end());
  keep.push_back(log_fd);
  close_all_but(keep);
  if (!drop_privileges(*server)) return fail("cannot drop privileges");

  Crew crew{.server = *server, .mutex = {}, .changed = {}};
  std::vector<Worker> workers;
  workers.reserve(connections.size());
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackSize);
  for (int socket : connections.subspan(1)) {
    workers.push_back({&crew, socket, {}});
    if (::pthread_create(&workers.back().thread, &attributes, run_worker, &workers.back()) != 0) {
      // Not return: those that there are wait for what would be destroyed.
      ::_exit(fail("the host refuses threads: a limit of processes is too low"));
    }
  }
  {
    std::unique_lock lock(crew.mutex);
    crew.changed.wait(lock, [&] { return crew.arrived == workers.size(); });
    if (!install_filter(*server, connections, log_fd))
      ::_exit(fail("cannot install the system call filter"));
    crew.open = true;
    crew.changed.notify_all();
  }
  server->serve(connections[0]);
  ::close(connections[0]);
  for (const Worker& worker : workers) ::pthread_join(worker.thread, nullptr);
  return 0;
}

}  // namespace uks::gofer
