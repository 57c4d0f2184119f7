// Logging for every role: spdlog's macros behind our own names, one logger a process, to the file
// descriptor that the keeper names (the log file, or stderr). What guests can cause again and again is
// logged with LOG_WARN_LIMITED.
#pragma once
#define SPDLOG_NO_EXCEPTIONS 1
#define SPDLOG_ACTIVE_LEVEL SPDLOG_LEVEL_TRACE
#include <spdlog/spdlog.h>

#include <cstdint>
#include <string_view>

namespace uks {

// `burst` lines at once, then one each `period_ns`. Not thread-safe.
class LogBudget {
 public:
  LogBudget(int64_t burst, int64_t period_ns) : burst_(burst), period_ns_(period_ns), tokens_(burst) {}
  // Whether a line may be written at this time (nanoseconds, rising): how many were held back since the last
  // one that might; -1: this one is held back.
  int64_t take(int64_t now_ns);

 private:
  int64_t burst_;
  int64_t period_ns_;
  int64_t tokens_;
  int64_t refilled_ns_ = 0;
  int64_t held_back_ = 0;
};
// The process's own: 10 lines, then one a second. Any thread.
int64_t take_log_budget();

// Sets the process's logger: `role` is its name in each line, `fd` a descriptor that stays open,
// `level` one of trace debug info warning error critical off.
void set_up_logging(std::string_view role, int fd, std::string_view level);
}  // namespace uks

#define LOG_TRACE(...) SPDLOG_TRACE(__VA_ARGS__)
#define LOG_DEBUG(...) SPDLOG_DEBUG(__VA_ARGS__)
#define LOG_INFO(...) SPDLOG_INFO(__VA_ARGS__)
#define LOG_WARN(...) SPDLOG_WARN(__VA_ARGS__)
#define LOG_ERROR(...) SPDLOG_ERROR(__VA_ARGS__)
// For lines that a guest can cause: the user's terminal is not its to fill.
#define LOG_WARN_LIMITED(...)                                                       \
  do {                                                                              \
    if (const int64_t held_back = ::uks::take_log_budget(); held_back >= 0) {       \
      if (held_back > 0) SPDLOG_WARN("{} more lines were held back", held_back);    \
      SPDLOG_WARN(__VA_ARGS__);                                                     \
    }                                                                               \
  } while (0)
