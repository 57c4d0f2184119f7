// Logging for every role: spdlog's macros behind our own names, one logger a process, to the file
// descriptor that the keeper names (the log file, or stderr). Guests can cause log lines: callers
// rate-limit what a guest can repeat.
#pragma once
#define SPDLOG_NO_EXCEPTIONS 1
#define SPDLOG_ACTIVE_LEVEL SPDLOG_LEVEL_TRACE
#include <spdlog/spdlog.h>

#include <string_view>

namespace uks {
// Sets the process's logger: `role` is its name in each line, `fd` a descriptor that stays open,
// `level` one of trace debug info warning error critical off.
void set_up_logging(std::string_view role, int fd, std::string_view level);
}  // namespace uks

#define LOG_TRACE(...) SPDLOG_TRACE(__VA_ARGS__)
#define LOG_DEBUG(...) SPDLOG_DEBUG(__VA_ARGS__)
#define LOG_INFO(...) SPDLOG_INFO(__VA_ARGS__)
#define LOG_WARN(...) SPDLOG_WARN(__VA_ARGS__)
#define LOG_ERROR(...) SPDLOG_ERROR(__VA_ARGS__)
