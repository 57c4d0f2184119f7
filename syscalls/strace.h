// --strace: one line for each finished call.
#pragma once
#include "platform/base/unique_fd.h"
#include "sentry/task/dispatcher.h"

namespace uks {

class StraceWriter final : public StraceSink {
 public:
  explicit StraceWriter(UniqueFd fd) : fd_(std::move(fd)) {}
  void on_call(Task& task, const Result<int64_t>& result) override;

 private:
  UniqueFd fd_;
};

}  // namespace uks
