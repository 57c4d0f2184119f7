#include "platform/base/log.h"

#define SPDLOG_NO_EXCEPTIONS 1
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace uks {
namespace {

// A sink that writes whole lines with write(2): no stdio, no allocation beyond the formatter's.
class FdSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FdSink(int fd) : fd_(fd) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& msg) override {
    spdlog::memory_buf_t line;
    formatter_->format(msg, line);
    (void)!::write(fd_, line.data(), line.size());
  }
  void flush_() override {}

 private:
  int fd_;
};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

bool logs(LogLevel level) { return spdlog::default_logger_raw()->should_log(spdlog_level(level)); }

void log_line(LogLevel level, const char* file, int line, fmt::string_view format,
              fmt::format_args arguments) {
  fmt::memory_buffer text;
  fmt::vformat_to(std::back_inserter(text), format, arguments);
  spdlog::default_logger_raw()->log(spdlog::source_loc(file, line, ""), spdlog_level(level),
                                    spdlog::string_view_t(text.data(), text.size()));
}

int64_t LogBudget::take(int64_t now_ns) {
  const int64_t fresh = (now_ns - refilled_ns_) / period_ns_;
  if (fresh > 0) {
    tokens_ = std::min(burst_, tokens_ + fresh);
    refilled_ns_ += fresh * period_ns_;
  }
  if (tokens_ == 0) {
    held_back_++;
    return -1;
  }
  tokens_--;
  return std::exchange(held_back_, 0);
}

int64_t take_log_budget() {
  static std::mutex mutex;
  static LogBudget budget(10, 1'000'000'000);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::lock_guard lock(mutex);
  return budget.take(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

void set_up_logging(std::string_view role, int fd, std::string_view level) {
  auto logger = std::make_shared<spdlog::logger>(std::string(role), std::make_shared<FdSink>(fd));
  // A pattern without local time: localtime_r opens /etc/localtime, which the roles' filters
  // forbid.
  logger->set_pattern("uks: %n: %l: [%s:%#] %v", spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace uks
