#include "tools/cli/gofer_config.h"

#include "gofer/server/config.h"
#include "tools/cli/paths.h"
#include "tools/cli/policy_data.h"

namespace uks::cli {
namespace {

gofer::Action action_of(RuleAction action) {
  switch (action) {
    case RuleAction::kReadWrite:
      return gofer::Action::kRw;
    case RuleAction::kReadOnly:
      return gofer::Action::kRo;
    case RuleAction::kAbsent:
      return gofer::Action::kAbsent;
    case RuleAction::kDeny:
      break;
  }
  return gofer::Action::kDeny;
}

}  // namespace

std::string encode_gofer_config(const View& view, bool protect_repositories) {
  gofer::Config config;
  config.protect_repositories = protect_repositories;
  for (const GoferTree& tree : view.trees) config.trees.push_back({tree.root, tree.writable});
  for (const GoferRule& rule : view.rules)
    config.rules.push_back({rule.path, action_of(rule.action), rule.track});
  if (!view.other_homes.empty()) {
    config.repeated.roots = view.other_homes;
    for (const policy::List list : {policy::home_secrets(), policy::big_secrets()}) {
      for (const std::string_view secret : list)
        config.repeated.rules.push_back({join("/", secret), gofer::Action::kDeny, false});
    }
  }
  if (config.rules.size() + config.repeated.rules.size() + config.repeated.roots.size() >
      gofer::RuleSet::kMaxRules)
    return {};
  return gofer::encode_config(config);
}

}  // namespace uks::cli
