// The view: what of the host the command sees, where, and how. Computed from the command line and a
// description of the host, before any process is started.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sentry/vfs/view_config.h"
#include "tools/cli/args.h"
#include "tools/cli/host.h"

namespace uks::cli {

enum class RuleAction { kReadWrite, kReadOnly, kAbsent, kDeny };
const char* action_name(RuleAction action);

// What the gofer answers for a host path and everything below it; the longest rule wins.
struct GoferRule {
  std::string path;  // absolute; hide rules may hold globs
  RuleAction action;
  // Whether the gofer also recognises its files by inode, under whatever other name (hard links).
  bool track = true;
  std::string reason;  // for --explain
};

struct GoferTree {
  std::string root;
  bool writable;
};

// Who the command is, inside.
struct Identity {
  uint32_t uid;
  uint32_t gid;
  std::vector<uint32_t> groups;
  bool virtual_root;  // --user 0 of a caller who is not root
};

// How the reason of a rule begins that refuses an entry of the secrets list in another user's home;
// the home follows.
inline constexpr std::string_view kOthersSecret = "secrets list, home of another user: ";

struct View {
  ViewConfig config;
  std::map<std::string, std::string> mount_reasons;  // by target, for --explain
  std::vector<GoferTree> trees;
  std::vector<GoferRule> rules;  // sorted by path, one each
  // Homes of others in which every entry of the secrets lists is refused, beside `rules`.
  std::vector<std::string> other_homes;
  std::vector<std::string> notices;  // lines for stderr, without `uks: `
  std::vector<std::string> errors;   // what keeps the command from running; lines likewise
  std::string workdir;               // where the command starts
  bool workspace_passes = false;     // the current directory is read-write on the host
  Identity identity;
};

View compute_view(const ExecOptions& options, const Host& host);

// By the policy lists: no workspace, and no home whose contents could be hidden.
bool is_system_directory(const std::string& dir);

// Why the directory cannot be the workspace by itself (`is $HOME` …); empty if it can.
std::string why_no_workspace(const std::string& dir, const std::string& home, const Host& host);

// The home directory that the policy protects: $HOME, else that of /etc/passwd; real path. Empty if
// there is none that could be told from the system (unset, `/`, `/usr/sbin` …).
std::string protected_home(const Host& host);

}  // namespace uks::cli
