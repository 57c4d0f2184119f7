// The gofer's rules of a view. Used by view_policy.cc only.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/cli/args.h"
#include "tools/cli/host.h"
#include "tools/cli/mount_aliases.h"
#include "tools/cli/view_policy.h"

namespace uks::cli {

// A path that the command line names, or that the policy derives.
struct Shown {
  std::string target;  // where the command sees it
  std::string source;  // its real path on the host
  bool writable;
  std::string reason;
};

// What a view is made from. All paths are real ones, `hidden` may hold globs.
struct ViewScope {
  const ExecOptions& options;
  const Host& host;
  std::set<std::string> homes;        // the caller's: $HOME and the account's
  std::set<std::string> other_homes;  // of all other accounts, if the caller may read them (root)
  std::set<std::string> hidden;       // --hide
  std::vector<Shown> shown;           // --ro, --rw and the workspace

  // What the command line names, or the workspace, if that shows this path; else null.
  const Shown* shown_above(const std::string& path) const;
  // The entry of the secrets lists that the path is or lies in, in any of the homes; empty if there
  // is none.
  std::string secret_above(const std::string& path) const;
};

class RuleBuilder {
 public:
  explicit RuleBuilder(const ViewScope& scope) : scope_(scope) {}

  // Makes the rules, once the scope is complete.
  void build();
  // Adds one, in place of what is there for the same path.
  void add(const std::string& path, RuleAction action, std::string reason, bool track = true);
  // Hides what is hidden under its other names, too: bind mounts, subvolumes. Last of all. False:
  // there are more than the gofer takes.
  bool add_aliases();
  // True if the rules let the path be seen and read.
  bool opens(const std::string& path) const;
  // All of them, sorted by path.
  std::vector<GoferRule> take();
  // View::other_homes.
  std::vector<std::string> take_other_homes() { return std::move(other_homes_); }

 private:
  using PathSet = std::set<std::string>;

  void add_home(const std::string& home);
  void open_home_entry(const std::string& path, const std::string& reason, PathSet& open);
  void add_secret(const std::string& home, const std::string& path, bool home_open,
                  const PathSet& open, bool track);
  void add_other_homes();
  void add_other_home(const std::string& home);
  void refuse_names_of_secrets(const std::string& home);
  void refuse_second_names(const std::string& home);
  const std::vector<HostMount>& mounts();
  void add_system_secrets();
  void add_shown_and_hidden();
  bool is_policy_below(const GoferRule& rule, const std::string& hidden) const;
  std::vector<std::string> path_entries() const;

  const ViewScope& scope_;
  std::map<std::string, GoferRule> rules_;
  std::vector<std::string> other_homes_;
  std::optional<std::vector<HostMount>> mounts_;
};

}  // namespace uks::cli
