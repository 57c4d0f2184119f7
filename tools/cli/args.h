// The command line of uks: what was asked for, and nothing about how it is done.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace uks::cli {

// Exit codes of uks itself (the command's own pass through).
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitFailure = 125;  // usage, and whatever goes wrong in uks

struct UserSpec {
  uint32_t uid;
  std::optional<uint32_t> gid;
};

struct ExecOptions {
  std::vector<std::string> ro, rw, hide, tmpfs;  // paths as typed
  std::vector<std::string> env;                  // K=V
  std::vector<std::string> pass_env;             // names
  bool clean_env = false;
  std::optional<std::string> workdir;
  std::optional<UserSpec> user;
  std::string hostname = "uks";
  std::string platform = "auto";
  bool strace = false;
  std::string strace_file;  // empty: stderr
  std::string log_level = "warning";
  std::string log_file;    // empty: stderr
  int64_t timeout_ms = 0;  // 0: none
  bool quiet = false;
  bool unprotect = false;
  bool summary = false;
  bool explain = false;
  std::vector<std::string> command;
};

// What to do instead of running something.
struct PrintText {
  std::string text;
};
struct UsageError {
  std::string message;  // one line, without the `uks: ` in front
};

struct DoctorOptions {
  bool json = false;
};
struct PsOptions {
  bool processes = false;
  bool json = false;
};

using ParsedArgs = std::variant<ExecOptions, DoctorOptions, PsOptions, PrintText, UsageError>;

// `args`: without the program's name.
ParsedArgs parse_args(const std::vector<std::string>& args);

// `90`, `1.5s`, `2m`, `1h`, `1d`: milliseconds. Nothing for what is no duration, negative or above
// 10 years.
std::optional<int64_t> parse_duration_ms(const std::string& text);
// UID[:GID], decimal; (uint32_t)-1 is not an id.
std::optional<UserSpec> parse_user(const std::string& text);

}  // namespace uks::cli
