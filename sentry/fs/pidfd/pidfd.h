// pidfd: a process as a file (pidfd_open(2)).
#pragma once
#include "sentry/task/task.h"
#include "sentry/vfs/file.h"

namespace uks {

class PidFd final : public File {
 public:
  PidFd(int flags, Ref<ThreadGroup> group, Ref<Inode> inode)
      : File(Path{}, flags), group_(std::move(group)), inode_(std::move(inode)) {}

  Inode* inode() const override { return inode_.get(); }
  std::string anonymous_name() const override { return "anon_inode:[pidfd]"; }
  FileKind kind() const override { return FileKind::kPidFd; }
  // It has a place for positions (pidfs opens it like a file), but nothing to read or write.
  bool positioned() const override { return true; }
  Result<size_t> pread(Task&, IoSink&, int64_t) override { return Err(EINVAL); }
  Result<size_t> pwrite(Task&, IoSource&, int64_t) override { return Err(EINVAL); }
  // Readable once the process has ended.
  uint32_t poll_events() override { return group_->zombie ? EPOLLIN | EPOLLRDNORM : 0; }
  WaitQueue* wait_queue() override { return &group_->exit_events; }
  std::string fdinfo() const override;

  ThreadGroup& group() { return *group_; }

 private:
  Ref<ThreadGroup> group_;
  Ref<Inode> inode_;
};

// A new descriptor for `group`, close-on-exec. `flags`: O_NONBLOCK or 0. EMFILE.
Result<int> install_pidfd(Task& task, ThreadGroup& group, int flags);
// The process behind a descriptor. EBADF: not a pidfd.
Result<Ref<ThreadGroup>> group_of_pidfd(Task& task, int fd);

}  // namespace uks
