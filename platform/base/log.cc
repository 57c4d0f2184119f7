#include "platform/base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string>

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

}  // namespace

void set_up_logging(std::string_view role, int fd, std::string_view level) {
  auto logger = std::make_shared<spdlog::logger>(std::string(role), std::make_shared<FdSink>(fd));
  // A pattern without local time: localtime_r opens /etc/localtime, which the roles' filters forbid.
  logger->set_pattern("uks: %n: %l: [%s:%#] %v", spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace uks
