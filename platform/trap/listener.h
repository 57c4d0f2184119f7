// One seccomp listener: receiving stubs' notifications and answering them.
#pragma once
#include "platform/base/unique_fd.h"
#include "platform/trap/notifier.h"

namespace uks {

class Listener final : public Notifier {
 public:
  explicit Listener(UniqueFd listener);
  Result<Notification> receive() override;
  Result<void> reply(uint64_t id, int64_t value) override;
  Result<void> approve(uint64_t id) override;
  Result<void> reply_with_fd(uint64_t id, int fd, int number, uint64_t) override;

 private:
  UniqueFd listener_;
  UniqueFd inert_;  // an eventfd, with which no stub can do anything
};

}  // namespace uks
