// Matching of rules, as a set of partly matched patterns that follows a path down.
#include "gofer/server/rules.h"

#include <algorithm>
#include <cerrno>

#include "platform/base/check.h"

namespace uks::gofer {

bool glob_match(std::string_view pattern, std::string_view name) {
  // Greedy with one point of return, which suffices for `*`; linear in the worst case times pattern
  // size.
  size_t p = 0, n = 0, star = std::string_view::npos, star_n = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_n = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_n;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

RuleSet::Compiled RuleSet::compile(std::string_view path) {
  Compiled compiled;
  compiled.components.reserve(static_cast<size_t>(std::ranges::count(path, '/')));
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view component = path.substr(0, slash);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    if (component.empty() || component == ".") continue;
    if (component.find_first_of("*?") != std::string_view::npos) compiled.literal = false;
    compiled.components.push_back(component);
  }
  CHECK(compiled.components.size() <= kMaxComponents);
  return compiled;
}

RuleSet::RuleSet(std::vector<Rule> rules, const RepeatedRules& repeated)
    : rules_(std::move(rules)),
      first_repeated_(rules_.size()),
      first_root_(first_repeated_ + repeated.rules.size()) {
  rules_.reserve(first_root_ + repeated.roots.size());
  for (const Rule& rule : repeated.rules) rules_.push_back({rule.path, rule.action, false});
  // kDeny: what a root leads to is as good as a refused path (leads_to_allowed).
  for (const std::string& root : repeated.roots) rules_.push_back({root, Action::kDeny, false});
  CHECK(rules_.size() <= kMaxRules);
  compiled_.reserve(rules_.size());
  for (const Rule& rule : rules_) compiled_.push_back(compile(rule.path));
}

void RuleSet::add(std::vector<RuleState::Live>& live, uint16_t rule, size_t position) const {
  const auto& components = compiled_[rule].components;
  live.push_back({rule, static_cast<uint16_t>(position)});
  while (position < components.size() && components[position] == "**") {
    live.push_back({rule, static_cast<uint16_t>(++position)});
  }
}

void RuleSet::settle(RuleState& state) const {
  std::sort(state.live.begin(), state.live.end());
  state.live.erase(std::unique(state.live.begin(), state.live.end()), state.live.end());
  int best = -1;
  bool at_root = false;
  std::erase_if(state.live, [&](RuleState::Live l) {
    if (l.position < compiled_[l.rule].components.size()) return false;
    if (is_root(l.rule)) {
      at_root = true;
      return true;
    }
    auto rank = [&](size_t rule) {
      return std::pair(compiled_[rule].literal, static_cast<int>(rules_[rule].action));
    };
    if (best < 0 || rank(l.rule) > rank(static_cast<size_t>(best))) best = l.rule;
    return true;
  });
  state.exact = best >= 0;
  if (best >= 0) state.action = rules_[static_cast<size_t>(best)].action;
  if (!at_root) return;
  for (size_t i = first_repeated_; i < first_root_; ++i)
    add(state.live, static_cast<uint16_t>(i), 0);
  // One may be there already: a root below another.
  std::sort(state.live.begin(), state.live.end());
  state.live.erase(std::unique(state.live.begin(), state.live.end()), state.live.end());
}

RuleState RuleSet::root(Action fallback) const {
  RuleState state;
  state.action = fallback;
  state.live.reserve(rules_.size());
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (i < first_repeated_ || i >= first_root_) add(state.live, static_cast<uint16_t>(i), 0);
  }
  settle(state);
  return state;
}

RuleState RuleSet::child(const RuleState& parent, std::string_view name) const {
  RuleState state;
  state.action = parent.action;
  for (RuleState::Live l : parent.live) {
    const std::string_view component = compiled_[l.rule].components[l.position];
    if (component == "**") {
      add(state.live, l.rule, l.position);
    } else if (compiled_[l.rule].literal ? component == name : glob_match(component, name)) {
      add(state.live, l.rule, l.position + 1u);
    }
  }
  settle(state);
  return state;
}

RuleState RuleSet::at(std::string_view path, Action fallback) const {
  RuleState state = root(fallback);
  while (!path.empty()) {
    size_t slash = path.find('/');
    std::string_view component = path.substr(0, slash);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    if (!component.empty() && component != ".") state = child(state, component);
  }
  if (!state.exact) state.action = fallback;
  return state;
}

bool RuleSet::leads_to_allowed(const RuleState& state) const {
  return std::any_of(state.live.begin(), state.live.end(), [&](RuleState::Live l) {
    Action action = rules_[l.rule].action;
    // A denied name somewhere below ("**/.env") does not bring an absent directory back.
    return action == Action::kRw || action == Action::kRo ||
           (action == Action::kDeny && compiled_[l.rule].literal);
  });
}

int RuleSet::visibility(const RuleState& state, bool is_directory) const {
  switch (state.action) {
    case Action::kRw:
    case Action::kRo:
      return 0;
    case Action::kDeny:
      return state.exact || (is_directory && leads_to_allowed(state)) ? 0 : EACCES;
    case Action::kAbsent:
      return is_directory && leads_to_allowed(state) ? 0 : ENOENT;
  }
  return ENOENT;
}

bool RuleSet::leads_to_named_path(const RuleState& state) const {
  return std::any_of(state.live.begin(), state.live.end(), [&](RuleState::Live l) {
    const auto& components = compiled_[l.rule].components;
    bool anywhere =
        components[l.position] == "**" || (l.position > 0 && components[l.position - 1u] == "**");
    return !anywhere;
  });
}

bool RuleSet::may_hide_below(const RuleState& state) const {
  return state.action == Action::kAbsent ||
         std::ranges::any_of(state.live, [&](const RuleState::Live& live) {
           return rules_[live.rule].action == Action::kAbsent;
         });
}

}  // namespace uks::gofer
