// What the gofer is told. It has no opinion of its own: the longest matching path decides.
#include "tools/cli/view_rules.h"

#include <algorithm>

#include "tools/cli/glob.h"
#include "tools/cli/paths.h"
#include "tools/cli/policy_data.h"

namespace uks::cli {
namespace {

bool is_open(const std::string& path, const std::set<std::string>& open) {
  return std::ranges::any_of(open, [&](const std::string& o) { return is_at_or_below(path, o); });
}

}  // namespace

const Shown* ViewScope::shown_above(const std::string& path) const {
  const Shown* best = nullptr;
  for (const Shown& s : shown) {
    if (is_at_or_below(path, s.source) && (!best || s.source.size() > best->source.size()))
      best = &s;
  }
  return best;
}

std::string ViewScope::secret_above(const std::string& path) const {
  for (const auto* all : {&homes, &other_homes}) {
    for (const std::string& home : *all) {
      if (!is_below(path, home)) continue;
      const std::string_view tail =
          std::string_view(path).substr(home == "/" ? 1 : home.size() + 1);
      for (const policy::List list : {policy::home_secrets(), policy::big_secrets()}) {
        for (const std::string_view secret : list) {
          if (is_at_or_below(tail, secret)) return join(home, secret);
        }
      }
    }
  }
  return {};
}

void RuleBuilder::add(const std::string& path, RuleAction action, std::string reason, bool track) {
  rules_.insert_or_assign(path, GoferRule{path, action, track, std::move(reason)});
}

bool RuleBuilder::opens(const std::string& path) const {
  const GoferRule* best = nullptr;
  for (const auto& [name, rule] : rules_) {
    if (is_at_or_below(path, name) && (!best || name.size() > best->path.size())) best = &rule;
  }
  return !best || best->action == RuleAction::kReadOnly || best->action == RuleAction::kReadWrite;
}

std::vector<GoferRule> RuleBuilder::take() {
  std::vector<GoferRule> rules;
  rules.reserve(rules_.size());
  for (auto& [path, rule] : rules_) rules.push_back(std::move(rule));
  rules_.clear();
  return rules;
}

void RuleBuilder::build() {
  for (const std::string& home : scope_.homes) add_home(home);
  add_other_homes();
  add_system_secrets();
  add_shown_and_hidden();
}

void RuleBuilder::add_system_secrets() {
  for (const std::string_view path : policy::system_secrets()) {
    const std::string name(path);
    // The backup copies of passwd(5)'s tools are written anew by them: not there, they can be.
    add(name, name.ends_with('-') ? RuleAction::kAbsent : RuleAction::kDeny, "system secret");
    // /etc may be reached through links on some systems; the gofer knows real paths only.
    if (scope_.host.kind(name) == FileKind::kLink) {
      if (const auto real = scope_.host.real_path(name))
        add(*real, RuleAction::kDeny, "system secret");
    }
  }
}

void RuleBuilder::add_shown_and_hidden() {
  // What is shown on request beats what the policy says of its ancestors and of the place itself,
  // not the secrets below it.
  for (const Shown& s : scope_.shown) {
    add(s.source, s.writable ? RuleAction::kReadWrite : RuleAction::kReadOnly, s.reason);
  }
  for (const std::string& path : scope_.hidden) {
    std::erase_if(rules_, [&](const auto& r) { return is_policy_below(r.second, path); });
    std::erase_if(other_homes_, [&](const auto& home) { return is_at_or_below(home, path); });
    add(path, RuleAction::kDeny, "--hide");
  }
}

bool RuleBuilder::add_aliases() {
  // The gofer refuses more than 8,192 rules, those for other homes included.
  constexpr size_t kMaxRules = 5120;
  std::vector<GoferRule> aliases;
  for (const auto& [path, rule] : rules_) {
    if (rule.action != RuleAction::kDeny && rule.action != RuleAction::kAbsent) continue;
    // Of a pattern the part before the first glob has other names.
    std::string dir = path, tail;
    while (has_glob(dir)) {
      tail = tail.empty() ? std::string(base_name(dir)) : std::string(base_name(dir)) + "/" + tail;
      dir = parent_of(dir);
    }
    // A part of a home that is mounted elsewhere was put there to be seen; a part of a secret not.
    const bool and_parts = tail.empty() && !scope_.homes.contains(path);
    for (std::string& name : other_names(mounts(), dir, and_parts)) {
      // Rules have no other way to write these.
      std::ranges::replace(name, '*', '?');
      if (!tail.empty()) name = join(name, tail);
      aliases.push_back(
          {std::move(name), rule.action, rule.track, rule.reason + " (another mount)"});
    }
  }
  for (GoferRule& alias : aliases) {
    if (rules_.size() >= kMaxRules) return false;
    rules_.try_emplace(alias.path, alias);
  }
  return true;
}

// A rule of the default view that would open something below a hidden path, or refuse what would
// not be seen there at all.
bool RuleBuilder::is_policy_below(const GoferRule& rule, const std::string& hidden) const {
  if (!is_at_or_below(rule.path, hidden)) return false;
  if (rule.reason.starts_with(kOthersSecret)) return true;
  if (rule.action != RuleAction::kReadOnly) return false;
  return std::ranges::none_of(scope_.shown, [&](const Shown& s) { return s.source == rule.path; });
}

void RuleBuilder::add_home(const std::string& home) {
  const Shown* opened = scope_.shown_above(home);
  // Not tracked by inode as a whole: homes are big, and the secrets in them are tracked one by
  // one.
  if (!opened) add(home, RuleAction::kAbsent, "the home directory", false);
  PathSet open;  // paths of this home that show
  if (opened) open.insert(home);
  for (const std::string_view entry : policy::home_allow()) {
    const std::string path = join(home, entry);
    if (!opened) open_home_entry(path, "home allow-list", open);
  }
  if (!opened) {
    for (const std::string& dir : path_entries()) {
      if (is_below(dir, home) && scope_.secret_above(dir).empty())
        open_home_entry(dir, "PATH", open);
    }
  }
  for (const Shown& s : scope_.shown) {
    if (is_below(s.source, home)) open.insert(s.source);
  }
  const bool home_open = opened != nullptr;
  for (const std::string_view secret : policy::home_secrets()) {
    add_secret(home, join(home, secret), home_open, open, true);
  }
  for (const std::string_view secret : policy::big_secrets()) {
    add_secret(home, join(home, secret), home_open, open, false);
  }
}

void RuleBuilder::add_secret(const std::string& home, const std::string& path, bool home_open,
                             const PathSet& open, bool track) {
  const bool visible = is_open(path, open);
  const FileKind kind = scope_.host.kind(path);
  if (visible) add(path, RuleAction::kDeny, "secret", track);
  // Where the home is absent anyway, a rule only serves to recognise the file under other names.
  if (!visible && track && kind != FileKind::kMissing) add(path, RuleAction::kAbsent, "secret");
  if (kind != FileKind::kLink) return;
  // Dotfile managers keep the file itself elsewhere. A deny rule in an absent place would make
  // the directories on the way to it appear.
  const auto real = scope_.host.real_path(path);
  if (!real || has_glob(*real)) return;
  const bool hidden_anyway = !home_open && is_below(*real, home) && !is_open(*real, open);
  add(*real, hidden_anyway ? RuleAction::kAbsent : RuleAction::kDeny, "secret", track);
}

void RuleBuilder::open_home_entry(const std::string& path, const std::string& reason,
                                  PathSet& open) {
  add(path, RuleAction::kReadOnly, reason);
  open.insert(path);
  if (scope_.host.kind(path) != FileKind::kLink) return;
  // Kept elsewhere in the home by a dotfile manager: the link would dangle. Never a secret, and
  // never so much that it opens the home.
  const auto real = scope_.host.real_path(path);
  if (!real || has_glob(*real) || !scope_.secret_above(*real).empty()) return;
  if (std::ranges::any_of(scope_.homes,
                          [&](const std::string& h) { return is_at_or_below(h, *real); }))
    return;
  if (scope_.host.kind(*real) != FileKind::kFile && scope_.host.kind(*real) != FileKind::kDirectory)
    return;
  if (std::ranges::any_of(scope_.homes, [&](const std::string& h) { return is_below(*real, h); })) {
    add(*real, RuleAction::kReadOnly, reason + ", a link");
    open.insert(*real);
  }
}

const std::vector<HostMount>& RuleBuilder::mounts() {
  if (!mounts_) {
    const auto text = scope_.host.read_text("/proc/self/mountinfo", 16 << 20);
    mounts_ = parse_mountinfo(text.value_or(""));
  }
  return *mounts_;
}

// Root may read everybody's secrets; an ordinary caller is held back by the host itself.
void RuleBuilder::add_other_homes() {
  constexpr size_t kMaxExamined = 64;  // each is listed
  size_t examined = 0;
  for (const std::string& home : scope_.other_homes) {
    add_other_home(home);
    if (examined++ < kMaxExamined) refuse_second_names(home);
  }
}

// By the home's name, and those that mounts of the whole or of parts give it.
void RuleBuilder::add_other_home(const std::string& home) {
  const auto inside = [&](const std::string& path) { return is_at_or_below(path, home); };
  // What is shown or hidden in it beats the list, which only rules of its own can say.
  const bool special = std::ranges::any_of(scope_.shown, inside, &Shown::source) ||
                       std::ranges::any_of(scope_.hidden, inside);
  std::vector<std::string> names = other_names(mounts(), home, false);
  const bool in_parts = other_names(mounts(), home, true).size() != names.size() ||
                        std::ranges::any_of(mounts(), inside, &HostMount::target);
  names.push_back(home);
  for (std::string& name : names) {
    if (special || has_glob(name)) {
      refuse_names_of_secrets(name);
    } else {
      other_homes_.push_back(std::move(name));
    }
  }
  if (!in_parts) return;
  for (const policy::List list : {policy::home_secrets(), policy::big_secrets()}) {
    for (const std::string_view secret : list) {
      for (std::string& name : other_names(mounts(), join(home, secret), true)) {
        std::ranges::replace(name, '*', '?');
        add(name, RuleAction::kDeny, std::string(kOthersSecret) + home, false);
      }
    }
  }
}

void RuleBuilder::refuse_names_of_secrets(const std::string& home) {
  for (const policy::List list : {policy::home_secrets(), policy::big_secrets()}) {
    for (const std::string_view secret : list) {
      std::string path = join(home, secret);
      std::ranges::replace(path, '*', '?');
      add(path, RuleAction::kDeny, std::string(kOthersSecret) + home, false);
    }
  }
}

// Secrets that are links, and those with more than one hard link.
void RuleBuilder::refuse_second_names(const std::string& home) {
  if (has_glob(home)) return;
  const std::string reason = std::string(kOthersSecret) + home;
  for (const policy::List list : {policy::home_secrets(), policy::big_secrets()}) {
    const bool track = list.data() == policy::home_secrets().data();
    for (const std::string_view secret : list) {
      const std::string path = join(home, secret);
      const FileKind kind = scope_.host.kind(path);
      if (kind == FileKind::kMissing) continue;
      if (track) add(path, RuleAction::kDeny, reason, true);
      if (kind != FileKind::kLink) continue;
      const auto real = scope_.host.real_path(path);
      // Its owner must not be able to take other things away.
      const auto below = [&](const std::string& p) { return is_at_or_below(p, *real); };
      if (!real || has_glob(*real) || is_system_directory(*real) || below(scope_.host.cwd) ||
          std::ranges::any_of(scope_.shown, below, &Shown::source) ||
          std::ranges::any_of(scope_.homes, below))
        continue;
      add(*real, RuleAction::kDeny, reason, track);
    }
  }
}

std::vector<std::string> RuleBuilder::path_entries() const {
  std::vector<std::string> entries;
  std::string path = scope_.host.variable("PATH");
  for (const std::string& pair : scope_.options.env) {
    if (pair.starts_with("PATH=")) path = pair.substr(5);
  }
  size_t begin = 0;
  while (begin <= path.size() && entries.size() < 256) {
    const size_t colon = std::min(path.find(':', begin), path.size());
    const std::string entry = path.substr(begin, colon - begin);
    begin = colon + 1;
    if (!entry.starts_with('/')) continue;
    const auto real = scope_.host.real_path(entry);
    if (real && !has_glob(*real)) entries.push_back(*real);
  }
  return entries;
}

}  // namespace uks::cli
