// Bringing a sandbox up: zygotes, kernel, view, first process.
#pragma once
#include <memory>
#include <vector>

#include "gofer/proto/client.h"
#include "platform/host/layers.h"
#include "platform/trap/trap_platform.h"
#include "sentry/boot/config.h"
#include "sentry/ipc/futex.h"
#include "sentry/task/dispatcher.h"
#include "sentry/task/event_loop.h"
#include "sentry/task/kernel.h"

namespace uks {

class Boot final : private HostWatcher {
 public:
  explicit Boot(HostLayers layers);
  ~Boot() override;

  // The whole life of the sentry; its exit status.
  int run(const std::string& platform);

 private:
  // Steps, in order. False: failed, and the keeper was told why.
  bool make_platform(const std::string& name);
  // The stubs' ancestors: by the platform asked for, or by the best that the host has.
  bool make_families(const std::string& name, std::vector<StubFamily>& families);
  Result<void> make_listened(std::vector<StubFamily>& families);
  Result<void> make_traced(std::vector<StubFamily>& families);
  // Takes the configuration, which is complete. Kernel lock held.
  bool configure();
  Result<void> start_threads();
  bool make_view();
  bool start_first_process();

  // The first process's stdio, ids, limits, working directory.
  Result<void> set_up_task(Task& task);
  // Finds argv[0] and loads it, as execvp(3) does. The errno that decided.
  Result<int64_t> exec_first(Task& task);
  bool looks_like_text(Task& task, const std::string& path);
  void pause_until_killed();
  void on_host_events(uint32_t events) override;
  void on_keeper(const keeper::Message& message);
  void on_finished(int wait_status);
  bool fail(const std::string& text, int status = 125);

  SandboxConfig config_;
  std::map<std::string, std::string> host_texts_;
  bool started_ = false;                // the first process has its program
  std::vector<keeper::Message> early_;  // from the keeper, before that
  HostLayers layers_;
  std::array<std::string, 3> stdio_names_;  // host paths of the standard streams; empty: none
  int nice_ = 0;                            // the caller's
  std::unique_ptr<keeper::Channel> keeper_;
  StubLayout layout_;
  HandOff way_ = HandOff::kListener;
  std::unique_ptr<gofer::GoferClient> gofer_;
  Kernel kernel_;
  FutexTable futexes_;
  EventLoop events_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<TrapPlatform> platform_;
  std::unique_ptr<StraceSink> strace_;
};

}  // namespace uks
