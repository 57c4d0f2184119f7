// A whole kernel, its run loop and all system calls, on the fake platform: guests make calls one at
// a time, in the order that the test says, and time passes when it says so.
#pragma once
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>

#include <memory>
#include <optional>
#include <string_view>

#include "platform/fake/fake_platform.h"
#include "sentry/fs/tmpfs/tmpfs.h"
#include "sentry/ipc/futex.h"
#include "sentry/task/dispatcher.h"
#include "sentry/task/kernel.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"
#include "sentry/vfs/mount.h"
#include "syscalls/dispatch.h"

namespace uks {

// A guest thread, by its task.
class Guest {
 public:
  Guest(fake::FakePlatform& platform, Ref<Task> task)
      : platform_(&platform), task_(std::move(task)) {
    thread_ = task_->thread;
  }

  // Makes a call. Its result; nothing: it waits, is in a handler, has another image, or is gone.
  template <typename... Args>
  std::optional<int64_t> call(uint64_t nr, Args... args) {
    thread_ = task_->thread;
    return platform_->call(*thread_, nr, {static_cast<uint64_t>(args)...});
  }
  // The same, but only the hand-off: the rest is platform.step().
  template <typename... Args>
  void begin(uint64_t nr, Args... args) {
    thread_ = task_->thread;
    platform_->begin_call(*thread_, nr, {static_cast<uint64_t>(args)...});
  }
  std::optional<int64_t> result() const { return platform_->result(*thread_); }
  bool waits() const { return task_->is_blocked(); }
  bool runs() const { return task_->thread && platform_->runs(*task_->thread); }
  const std::vector<fake::Handler>& handlers() const { return platform_->handlers(*task_->thread); }
  void return_from_handler() { platform_->return_from_handler(*task_->thread); }
  uint64_t entry() const { return platform_->entry(*task_->thread); }

  Task& task() { return *task_; }
  bool dead() const { return task_->dead; }
  int pid() const { return task_->tgid(); }
  int tid() const { return task_->tid(); }
  AddressSpace& mm() { return *task_->mm; }

  // Its memory.
  template <typename T>
  void put(uint64_t addr, const T& value) {
    ASSERT_EQ(platform_->memory(mm()).write(addr, &value, sizeof value), sizeof value);
  }
  void put_text(uint64_t addr, std::string_view text) {
    ASSERT_EQ(platform_->memory(mm()).write(addr, text.data(), text.size()), text.size());
  }
  template <typename T>
  T get(uint64_t addr) {
    T value{};
    EXPECT_EQ(platform_->memory(mm()).read(addr, &value, sizeof value), sizeof value);
    return value;
  }
  std::string text(uint64_t addr, size_t n) {
    std::string bytes(n, '\0');
    EXPECT_EQ(platform_->memory(mm()).read(addr, bytes.data(), n), n);
    return bytes;
  }

 private:
  fake::FakePlatform* platform_;
  Ref<Task> task_;
  Ref<GuestThread> thread_;  // of its last call
};

class Sandbox : public testing::Test {
 protected:
  // What the first process has mapped, and each that is forked from it.
  static constexpr uint64_t kMemory = 0x100000, kMemorySize = 1 << 20;
  static constexpr int64_t kSecond = 1'000'000'000;

  Sandbox() {
    now = 1000 * kSecond;
    monotonic_clock_before_ = std::exchange(monotonic_clock, [] { return now; });
    platform.start(dispatcher);
    kernel.platform = &platform;
    kernel.dispatcher = &dispatcher;
    kernel.futexes = &futexes;
    kernel_lock.lock();
    auto root = make_ref<Tmpfs>(1 << 26)->make_root(0755, 0, 0);
    Ref<FileSystem> fs(&root->fs());
    auto mount = make_ref<Mount>(std::move(fs), Dentry::make_root(std::move(root)), 0, "test");
    kernel.mounts = make_ref<MountNamespace>(mount);
    const Ref<ThreadGroup> group = kernel.new_group(nullptr);
    group->pgid = group->pid;
    group->session = kernel.find_group(1)->session;
    auto task = make_ref<Task>(kernel, group, group->pid);
    kernel.add_task(*task);
    Credentials creds;
    creds.cap_bounding = creds.cap_permitted = creds.cap_effective =
        (uint64_t{1} << 41) - 1;  // root
    task->set_creds(creds);
    const Path at{mount, mount->root()};
    task->fs_context = make_ref<FsContext>(kernel.mounts, at, at);
    task->fd_table = make_ref<FdTable>();
    GuestThread* thread = platform.take_stub();
    task->thread = Ref<GuestThread>(thread);
    task->mm = Ref<AddressSpace>(&thread->mm());
    thread->task = task.get();
    task->mm->users = 1;
    kernel.unlock_and_flush();
    platform.memory(*task->mm).map(kMemory, kMemorySize);
    platform.let_run(*thread);
    first = std::make_unique<Guest>(platform, task);
  }
  ~Sandbox() override {
    kernel_lock.lock();
    kernel.finish(0);
    if (!kernel.init()->zombie) kernel.exit_group(*kernel.init(), 0);
    kernel.unlock_and_flush();
    platform.run();
    monotonic_clock = monotonic_clock_before_;
  }

  Guest guest(int64_t tid) {
    Task* task = kernel.find_task(static_cast<pid_t>(tid));
    EXPECT_TRUE(task) << tid;
    return Guest(platform, Ref<Task>(task));
  }
  // A child process of `parent`, which runs.
  Guest fork(Guest& parent) { return guest(parent.call(SYS_fork).value()); }
  // Another thread of it.
  Guest new_thread(Guest& of) {
    constexpr uint64_t kThread = 0x50f00;  // VM FS FILES SIGHAND THREAD SYSVSEM
    return guest(of.call(SYS_clone, kThread, kMemory + kMemorySize).value());
  }
  // Reading and writing end.
  std::pair<int, int> pipe(Guest& of) {
    EXPECT_EQ(of.call(SYS_pipe2, kMemory, 0), 0);
    return {of.get<int>(kMemory), of.get<int>(kMemory + 4)};
  }
  void handle(Guest& of, int signo, uint64_t flags) {
    constexpr uint64_t kRestorer = 0x04000000;
    of.put(kMemory, GuestSigaction{kHandler, flags | kRestorer, kHandler + 64, 0});
    ASSERT_EQ(of.call(SYS_rt_sigaction, signo, kMemory, 0, 8), 0);
  }
  static constexpr uint64_t kHandler = 0x400100;

  void pass_time(int64_t ns) {
    now += ns;
    kernel_lock.lock();
    kernel.timers.run(now);
    kernel.unlock_and_flush();
    platform.run();
  }

  inline static int64_t now;
  fake::FakePlatform platform{kernel_lock};
  FutexTable futexes;
  Kernel kernel;
  Dispatcher dispatcher{kernel, dispatch_call};
  std::unique_ptr<Guest> first;  // the first process

 private:
  MonotonicNs (*monotonic_clock_before_)();
};

}  // namespace uks
