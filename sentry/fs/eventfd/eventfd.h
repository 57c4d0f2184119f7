// eventfd(2): a 64-bit counter as a file.
#pragma once
#include "sentry/vfs/file.h"

namespace uks {

class EventFd final : public File {
 public:
  EventFd(int flags, uint64_t value, bool semaphore, Ref<Inode> inode)
      : File(Path{}, flags), count_(value), semaphore_(semaphore), inode_(std::move(inode)) {}
  ~EventFd() override;

  Inode* inode() const override { return inode_.get(); }
  std::string anonymous_name() const override { return "anon_inode:[eventfd]"; }
  Result<size_t> read(Task& task, IoSink& sink) override;
  Result<size_t> write(Task& task, IoSource& source) override;
  Result<int64_t> seek(Task&, int64_t, int) override { return pos; }  // noop_llseek()
  uint32_t poll_events() override;
  WaitQueue* wait_queue() override { return &queue_; }
  std::string fdinfo() const override;

 private:
  uint64_t count_;
  bool semaphore_;
  Ref<Inode> inode_;
  WaitQueue queue_;
};

}  // namespace uks
