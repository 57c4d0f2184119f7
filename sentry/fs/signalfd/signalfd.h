// signalfd(2): pending signals read as records.
#pragma once
#include "sentry/signal/signal_state.h"
#include "sentry/task/task.h"
#include "sentry/vfs/file.h"

namespace uks {

// It has no owner: it reads, and is ready for, the signals of who asks, as on Linux. An epoll hears
// of those of the process that added it, and then asks for its own caller.
class SignalFd final : public File {
 public:
  SignalFd(SignalMask mask, int flags, Ref<Inode> inode);
  ~SignalFd() override;

  Inode* inode() const override { return inode_.get(); }
  std::string anonymous_name() const override { return "anon_inode:[signalfd]"; }
  FileKind kind() const override { return FileKind::kSignalFd; }
  // Whole 128-byte records. EINVAL for a buffer with no room for one.
  Result<size_t> read(Task& task, IoSink& sink) override;
  Result<int64_t> seek(Task&, int64_t, int) override { return pos; }  // noop_llseek()
  uint32_t poll_events() override { return 0; }
  WaitQueue* wait_queue() override { return &nobody_; }
  uint32_t poll_events_for(Task& task) override;
  WaitQueue* wait_queue_for(Task& task) override { return &task.group().signal_events; }
  std::string fdinfo() const override;

  void set_mask(Task& task, SignalMask mask);

 private:
  SignalMask mask_;
  Ref<Inode> inode_;
  WaitQueue nobody_;  // says that it can be polled; never woken
};

}  // namespace uks
