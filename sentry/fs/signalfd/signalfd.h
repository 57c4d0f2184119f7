// signalfd(2): pending signals read as records.
#pragma once
#include "sentry/signal/signal_state.h"
#include "sentry/task/task.h"
#include "sentry/vfs/file.h"

namespace uks {

// Reads take the reader's own signals, as on Linux. Readiness has no reader here: it is that of the
// process which made the descriptor.
class SignalFd final : public File {
 public:
  SignalFd(Ref<ThreadGroup> group, SignalMask mask, int flags, Ref<Inode> inode);
  ~SignalFd() override;

  Inode* inode() const override { return inode_.get(); }
  std::string anonymous_name() const override { return "anon_inode:[signalfd]"; }
  FileKind kind() const override { return FileKind::kSignalFd; }
  // Whole 128-byte records. EINVAL for a buffer with no room for one.
  Result<size_t> read(Task& task, IoSink& sink) override;
  uint32_t poll_events() override;
  WaitQueue* wait_queue() override { return &group_->signal_events; }
  std::string fdinfo() const override;

  void set_mask(SignalMask mask);

 private:
  Ref<ThreadGroup> group_;
  SignalMask mask_;
  Ref<Inode> inode_;
};

}  // namespace uks
