// Logging for every role: one spdlog logger a process, to the file descriptor that the keeper names
// (the log file, or stderr). What guests can cause again and again is logged with LOG_WARN_LIMITED.
// spdlog itself is behind log.cc: its headers take the compiler twenty seconds.
#pragma once
#include <fmt/core.h>

#include <cstdint>
#include <string_view>

namespace uks {

// `burst` lines at once, then one each `period_ns`. Not thread-safe.
class LogBudget {
 public:
  LogBudget(int64_t burst, int64_t period_ns)
      : burst_(burst), period_ns_(period_ns), tokens_(burst) {}
  // Whether a line may be written at this time (nanoseconds, rising): how many were held back since
  // the last one that might; -1: this one is held back.
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

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };

// Whether lines of that level are written.
bool logs(LogLevel level);
void log_line(LogLevel level, const char* file, int line, fmt::string_view format,
              fmt::format_args arguments);

template <typename... Args>
void log_formatted(LogLevel level, const char* file, int line, fmt::format_string<Args...> format,
                   Args&&... arguments) {
  log_line(level, file, line, format, fmt::make_format_args(arguments...));
}
}  // namespace uks

#define UKS_LOG(level, ...)                                                               \
  do {                                                                                    \
    if (::uks::logs(level)) ::uks::log_formatted(level, __FILE__, __LINE__, __VA_ARGS__); \
  } while (0)
#define LOG_TRACE(...) UKS_LOG(::uks::LogLevel::kTrace, __VA_ARGS__)
#define LOG_DEBUG(...) UKS_LOG(::uks::LogLevel::kDebug, __VA_ARGS__)
#define LOG_INFO(...) UKS_LOG(::uks::LogLevel::kInfo, __VA_ARGS__)
#define LOG_WARN(...) UKS_LOG(::uks::LogLevel::kWarn, __VA_ARGS__)
#define LOG_ERROR(...) UKS_LOG(::uks::LogLevel::kError, __VA_ARGS__)
// For lines that a guest can cause: the user's terminal is not its to fill.
#define LOG_WARN_LIMITED(...)                                                 \
  do {                                                                        \
    if (const int64_t held_back = ::uks::take_log_budget(); held_back >= 0) { \
      if (held_back > 0) LOG_WARN("{} more lines were held back", held_back); \
      LOG_WARN(__VA_ARGS__);                                                  \
    }                                                                         \
  } while (0)
