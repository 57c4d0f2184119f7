// Which of the caller's environment variables the command gets.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/args.h"

namespace uks::cli {

enum class EnvVerdict { kKept, kSet, kUnlisted, kWithheldName, kWithheldValue, kCleaned };

struct EnvDecision {
  std::string name;
  EnvVerdict verdict;
  std::string rule;  // the list entry or flag that decided; empty: none matched
};

struct Environment {
  std::vector<std::string> variables;  // K=V, in the caller's order, then what was set
  std::vector<EnvDecision> decisions;  // one a variable of the caller, and one a variable set
};

// Pure: `caller` is the environment as K=V strings. `workdir` becomes PWD unless the caller's own
// PWD is another name of it (`pwd_is_workdir`).
Environment compute_environment(const std::vector<std::string>& caller, const ExecOptions& options,
                                const std::string& workdir, bool pwd_is_workdir);

// True if `value` holds a URL with user info (scheme://user…@host).
bool has_url_user_info(std::string_view value);

}  // namespace uks::cli
