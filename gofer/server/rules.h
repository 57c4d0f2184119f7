// Which paths of the host a sandbox may see and change.
//
// A rule names an absolute path; for a file the rule with the longest matching path prefix holds.
// Between rules that match the same prefix a literal path beats a glob, then the stricter action
// wins.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace uks::gofer {

// In order of strictness.
enum class Action : uint8_t {
  kRw,      // may be read and changed
  kRo,      // may be read
  kDeny,    // seen by stat and listings, but opening, reading the link, listing: EACCES
  kAbsent,  // ENOENT
};

struct Rule {
  std::string path;
  Action action = Action::kRo;
  bool track = true;  // its files are known by inode too (HiddenInodes)
};

// The same rules below each of several directories, at the cost of one rule for each: with a
// hundred homes and a hundred names in each, ten thousand rules would cost more than the rest of a
// start.
struct RepeatedRules {
  std::vector<std::string> roots;  // absolute paths, no globs
  std::vector<Rule> rules;         // their paths begin with `/`, which stands for a root
};

// Where a path stands: what holds for it and which rules it may yet lead to. Advanced one component
// at a time, so that nobody has to keep whole paths.
struct RuleState {
  // A rule that matches the path so far, up to component `position` of its own.
  struct Live {
    uint16_t rule;
    uint16_t position;
    friend auto operator<=>(const Live&, const Live&) = default;
  };
  Action action = Action::kRo;
  bool exact = false;      // a rule names this very path
  std::vector<Live> live;  // sorted, without duplicates
};

class RuleSet {
 public:
  // More than these are refused by parse_config().
  static constexpr size_t kMaxRules = 8192;
  static constexpr size_t kMaxComponents = 1024;

  // The files of repeated rules are not known by inode, whatever they say.
  explicit RuleSet(std::vector<Rule> rules, const RepeatedRules& repeated = {});

  // The state of "/", whose action is `fallback` unless a rule names it.
  RuleState root(Action fallback) const;
  RuleState child(const RuleState& parent, std::string_view name) const;
  // The state of an absolute path that a tree is served from: no rule names it exactly: `fallback`.
  RuleState at(std::string_view absolute_path, Action fallback) const;

  RuleSet(const RuleSet&) = delete;  // compiled_ points into rules_
  RuleSet& operator=(const RuleSet&) = delete;

  // 0 if the file may be seen, else ENOENT or EACCES. An absent or denied directory is passed
  // through on the way to a path that is allowed below it.
  int visibility(const RuleState& state, bool is_directory) const;
  // Some rule names a path below which is not just "anywhere below" (a literal or a glob without
  // **).
  bool leads_to_named_path(const RuleState& state) const;

  // Whether names below this path may be absent by rule.
  bool may_hide_below(const RuleState& state) const;

  // The repeated ones and their roots come after the others.
  const std::vector<Rule>& rules() const { return rules_; }
  bool is_literal(size_t rule) const { return compiled_[rule].literal; }

 private:
  struct Compiled {
    std::vector<std::string_view> components;  // of the rule's path
    bool literal = true;
  };
  static Compiled compile(std::string_view path);
  bool is_root(uint16_t rule) const { return rule >= first_root_; }
  // Adds a position and, after a "**", the one behind it.
  void add(std::vector<RuleState::Live>& live, uint16_t rule, size_t position) const;
  // Takes finished rules out of `live` and lets the best of them decide.
  void settle(RuleState& state) const;
  bool leads_to_allowed(const RuleState& state) const;

  // In this order: the rules, the repeated rules, and one for each root, which decides nothing.
  std::vector<Rule> rules_;
  std::vector<Compiled> compiled_;
  size_t first_repeated_;
  size_t first_root_;
};

// Matches one path component against a pattern with * and ?.
bool glob_match(std::string_view pattern, std::string_view name);

}  // namespace uks::gofer
