// The environment policy: an allow-list of names first, then nothing that looks like a credential.
#include "tools/cli/environment.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "tools/cli/glob.h"
#include "tools/cli/policy_data.h"

namespace uks::cli {
namespace {

constexpr std::string_view kStandardPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::optional<std::string_view> first_match(policy::List list, std::string_view name,
                                            bool ignore_case) {
  for (const std::string_view pattern : list) {
    if (name_matches(pattern, name, ignore_case)) return pattern;
  }
  return std::nullopt;
}

bool contains(const std::vector<std::string>& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

EnvDecision decide(std::string_view name, std::string_view value, const ExecOptions& options) {
  const std::string key(name);
  if (contains(options.pass_env, name)) return {key, EnvVerdict::kKept, "--pass-env"};
  if (options.clean_env && name != "PATH" && name != "HOME" && name != "TERM") {
    return {key, EnvVerdict::kCleaned, "--clean-env"};
  }
  const auto allowed = first_match(policy::env_allow(), name, false);
  if (!allowed) return {key, EnvVerdict::kUnlisted, ""};
  if (!first_match(policy::env_never_credentials(), name, false)) {
    if (const auto credential = first_match(policy::env_withhold(), name, true)) {
      return {key, EnvVerdict::kWithheldName, std::string(*credential)};
    }
  }
  if (has_url_user_info(value)) return {key, EnvVerdict::kWithheldValue, "URL with user info"};
  return {key, EnvVerdict::kKept, std::string(*allowed)};
}

void set_variable(Environment& env, const std::string& name, const std::string& value,
                  const std::string& rule) {
  const std::string prefix = name + "=";
  const auto old = std::ranges::find_if(
      env.variables, [&](const std::string& v) { return v.starts_with(prefix); });
  if (old != env.variables.end()) {
    *old = prefix + value;
  } else {
    env.variables.push_back(prefix + value);
  }
  std::erase_if(env.decisions, [&](const EnvDecision& d) { return d.name == name; });
  env.decisions.push_back({name, EnvVerdict::kSet, rule});
}

}  // namespace

bool has_url_user_info(std::string_view value) {
  for (size_t at = value.find("://"); at != std::string_view::npos;
       at = value.find("://", at + 3)) {
    // A scheme starts with a letter (RFC 3986 §3.1); its last character is enough to tell a URL
    // here.
    if (at == 0 || !std::isalnum(static_cast<unsigned char>(value[at - 1]))) continue;
    const std::string_view rest = value.substr(at + 3);
    // User names and passwords may hold anything but what ends an authority. `,` and `|` separate
    // URLs in lists such as GOPROXY.
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?# \t\n,|\"'"));
    const size_t sign = authority.rfind('@');
    if (sign != std::string_view::npos && sign > 0) return true;
  }
  return false;
}

Environment compute_environment(const std::vector<std::string>& caller, const ExecOptions& options,
                                const std::string& workdir, bool pwd_is_workdir) {
  Environment env;
  bool has_path = false;
  bool has_pwd = false;
  for (const std::string& variable : caller) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) continue;  // no name: nothing may rely on it
    const std::string_view name = std::string_view(variable).substr(0, equals);
    EnvDecision decision = decide(name, std::string_view(variable).substr(equals + 1), options);
    if (decision.verdict == EnvVerdict::kKept) {
      env.variables.push_back(variable);
      has_path = has_path || name == "PATH";
      has_pwd = has_pwd || name == "PWD";
    }
    env.decisions.push_back(std::move(decision));
  }
  if (options.clean_env && !has_path)
    set_variable(env, "PATH", std::string(kStandardPath), "--clean-env");
  if (has_pwd && !pwd_is_workdir) set_variable(env, "PWD", workdir, "the working directory");
  set_variable(env, "TMPDIR", "/tmp", "the sandbox's own /tmp");
  for (const std::string& pair : options.env) {
    const size_t equals = pair.find('=');
    set_variable(env, pair.substr(0, equals), pair.substr(equals + 1), "--env");
  }
  return env;
}

}  // namespace uks::cli
