// Which directories are a home to protect, and which are no workspace.
#include <algorithm>

#include "tools/cli/paths.h"
#include "tools/cli/policy_data.h"
#include "tools/cli/view_policy.h"

namespace uks::cli {
namespace {

bool at_or_below_any(const std::string& path, policy::List list) {
  return std::ranges::any_of(list, [&](std::string_view p) { return is_at_or_below(path, p); });
}

bool contains(policy::List list, std::string_view value) {
  return std::ranges::find(list, value) != list.end();
}

}  // namespace

bool is_system_directory(const std::string& dir) {
  return contains(policy::workspace_never(), dir) ||
         at_or_below_any(dir, policy::workspace_never_below());
}

std::string protected_home(const Host& host) {
  std::string home = host.variable("HOME");
  if (!home.starts_with('/')) {
    home.clear();
    for (const Account& account : host.accounts) {
      if (account.uid == host.uid) {
        home = account.home;
        break;
      }
    }
  }
  if (home.empty()) return {};
  home = absolute_path(home, "/", "");
  home = host.real_path(home).value_or(home);
  if (home == "/root") return home;
  return is_system_directory(home) ? std::string() : home;
}

std::string why_no_workspace(const std::string& dir, const std::string& home, const Host& host) {
  if (!home.empty() && dir == home) return "is $HOME";
  if (!home.empty() && is_below(home, dir)) return "contains $HOME";
  if (dir == host.real_path(host.variable("HOME")).value_or("")) return "is $HOME";
  if (is_system_directory(dir)) return "is a system directory";
  for (const Account& account : host.accounts) {
    if (dir == account.home)
      return account.uid == host.uid ? "is the home directory" : "is another user's home";
    // System accounts' homes are places such as /srv/app/state: no reason to refuse /srv/app.
    const bool person = account.uid == 0 || (account.uid >= 1000 && account.uid < 65534);
    if (person && is_below(account.home, dir)) return "contains a user's home";
  }
  return {};
}

}  // namespace uks::cli
