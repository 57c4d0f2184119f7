// The gofer's rules and its configuration.
#include "gofer/server/rules.h"

#include <gtest/gtest.h>

#include "gofer/server/config.h"

namespace uks::gofer {
namespace {

Action action_of(const RuleSet& rules, std::string_view path) {
  RuleState state = rules.root(Action::kRo);
  while (!path.empty()) {
    size_t slash = path.find('/');
    if (slash != 0) state = rules.child(state, path.substr(0, slash));
    path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
  }
  return state.action;
}

RuleState state_of(const RuleSet& rules, std::string_view path) {
  RuleState state = rules.root(Action::kRo);
  while (!path.empty()) {
    size_t slash = path.find('/');
    if (slash != 0) state = rules.child(state, path.substr(0, slash));
    path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
  }
  return state;
}

TEST(GoferRules, Globs) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("*.key", "a.key"));
  EXPECT_TRUE(glob_match("a*b*c", "aXXbYbZc"));
  EXPECT_TRUE(glob_match("?b", "ab"));
  EXPECT_FALSE(glob_match("?b", "b"));
  EXPECT_FALSE(glob_match("*.key", "a.keys"));
  EXPECT_FALSE(glob_match("", "a"));
}

TEST(GoferRules, LongestPrefixWins) {
  RuleSet rules({{"/home/u", Action::kAbsent},
                 {"/home/u/proj", Action::kRw},
                 {"/home/u/proj/.git/hooks", Action::kRo},
                 {"/home/u/.gitconfig", Action::kRo},
                 {"/home/u/proj/secret", Action::kDeny}});
  EXPECT_EQ(action_of(rules, "/etc/passwd"), Action::kRo);
  EXPECT_EQ(action_of(rules, "/home"), Action::kRo);
  EXPECT_EQ(action_of(rules, "/home/u"), Action::kAbsent);
  EXPECT_EQ(action_of(rules, "/home/u/x/y"), Action::kAbsent);
  EXPECT_EQ(action_of(rules, "/home/uu"), Action::kRo);
  EXPECT_EQ(action_of(rules, "/home/u/proj/a/b"), Action::kRw);
  EXPECT_EQ(action_of(rules, "/home/u/proj/.git/hooks/x"), Action::kRo);
  EXPECT_EQ(action_of(rules, "/home/u/proj/secret/x"), Action::kDeny);
  // The hidden home leads to allowed paths, so it shows as a directory.
  EXPECT_EQ(rules.visibility(state_of(rules, "/home/u"), true), 0);
  EXPECT_EQ(rules.visibility(state_of(rules, "/home/u"), false), ENOENT);
  EXPECT_EQ(rules.visibility(state_of(rules, "/home/u/other"), true), ENOENT);
  EXPECT_EQ(rules.visibility(state_of(rules, "/home/u/proj/secret"), true), 0);
  EXPECT_EQ(rules.visibility(state_of(rules, "/home/u/proj/secret/x"), false), EACCES);
  EXPECT_TRUE(rules.leads_to_named_path(state_of(rules, "/home/u/proj/.git")));
  EXPECT_FALSE(rules.leads_to_named_path(state_of(rules, "/home/u/proj/src")));
}

TEST(GoferRules, GlobRules) {
  RuleSet rules({{"/w", Action::kRw},
                 {"/w/**/.env", Action::kDeny},
                 {"/w/keys/*.pem", Action::kAbsent},
                 {"/w/keys/public.pem", Action::kRo},
                 {"/**/id_?sa", Action::kDeny},
                 {"/h", Action::kAbsent}});
  EXPECT_EQ(action_of(rules, "/w/.env"), Action::kDeny);
  EXPECT_EQ(action_of(rules, "/w/a/b/.env"), Action::kDeny);
  EXPECT_EQ(action_of(rules, "/w/a/b/.env/x"), Action::kDeny);
  EXPECT_EQ(action_of(rules, "/x/.env"), Action::kRo);
  EXPECT_EQ(action_of(rules, "/w/keys/a.pem"), Action::kAbsent);
  EXPECT_EQ(action_of(rules, "/w/keys/public.pem"), Action::kRo);  // a literal beats a glob
  EXPECT_EQ(action_of(rules, "/w/keys/a.txt"), Action::kRw);
  EXPECT_EQ(action_of(rules, "/x/y/id_rsa"), Action::kDeny);
  // A glob that could match anywhere does not uncover an absent directory.
  EXPECT_EQ(rules.visibility(state_of(rules, "/h"), true), ENOENT);
  EXPECT_FALSE(rules.leads_to_named_path(state_of(rules, "/w/a")));
  EXPECT_EQ(state_of(rules, "/w/a").live, state_of(rules, "/w/b/c").live);
  EXPECT_TRUE(rules.leads_to_named_path(state_of(rules, "/w/keys")));
}

TEST(GoferRules, TreeRootsDecideUnlessNamed) {
  RuleSet rules({{"/home/u", Action::kAbsent}, {"/srv/hidden", Action::kDeny}});
  EXPECT_EQ(rules.at("/home/u/proj", Action::kRw).action, Action::kRw);
  EXPECT_EQ(rules.at("/srv/hidden", Action::kRw).action, Action::kDeny);
  EXPECT_EQ(rules.at("/", Action::kRo).action, Action::kRo);
}

TEST(GoferRules, RepeatedRules) {
  const RepeatedRules homes{{"/home/a", "/home/b", "/home/b/inner"},
                            {{"/.ssh", Action::kDeny}, {"/.config/x", Action::kDeny}}};
  RuleSet rules({{"/home/b/.ssh/known_hosts", Action::kRo}, {"/home", Action::kAbsent}}, homes);
  EXPECT_EQ(action_of(rules, "/home/a/.ssh"), Action::kDeny);
  EXPECT_EQ(action_of(rules, "/home/a/.ssh/id"), Action::kDeny);
  EXPECT_EQ(action_of(rules, "/home/b/.config/x/y"), Action::kDeny);
  EXPECT_EQ(action_of(rules, "/home/b/inner/.ssh"), Action::kDeny);
  EXPECT_EQ(action_of(rules, "/home/b/.ssh/known_hosts"), Action::kRo);
  EXPECT_EQ(action_of(rules, "/home/a/.config"), Action::kAbsent);  // /home's own
  EXPECT_EQ(action_of(rules, "/home/c/.ssh"), Action::kAbsent);
  EXPECT_EQ(action_of(rules, "/.ssh"), Action::kRo);
  EXPECT_EQ(action_of(rules, "/x/.ssh"), Action::kRo);
  // Refused names can be reached, and no root names itself.
  EXPECT_EQ(rules.visibility(state_of(rules, "/home"), true), 0);
  EXPECT_EQ(rules.visibility(state_of(rules, "/home/a"), true), 0);
  EXPECT_EQ(rules.visibility(state_of(rules, "/home/c"), true), ENOENT);
  EXPECT_FALSE(state_of(rules, "/home/a").exact);
}

TEST(GoferConfig, Parses) {
  const std::string bytes =
      encode_config({.trees = {{"/", false}, {"/w\xff", true}},
                     .rules = {{"/h", Action::kAbsent}, {"/h/c", Action::kRo, false}},
                     .repeated = {{"/home/a", "/home/b"}, {{"/.ssh", Action::kDeny, false}}},
                     .protect_repositories = false});
  Config config;
  std::string problem;
  ASSERT_TRUE(parse_config(bytes, config, problem)) << problem;
  ASSERT_EQ(config.trees.size(), 2u);
  EXPECT_EQ(config.trees[1].root, "/w\xff");
  EXPECT_TRUE(config.trees[1].writable);
  ASSERT_EQ(config.rules.size(), 2u);
  EXPECT_EQ(config.rules[0].action, Action::kAbsent);
  EXPECT_TRUE(config.rules[0].track);
  EXPECT_FALSE(config.rules[1].track);
  EXPECT_EQ(config.repeated.roots, (std::vector<std::string>{"/home/a", "/home/b"}));
  ASSERT_EQ(config.repeated.rules.size(), 1u);
  EXPECT_EQ(config.repeated.rules[0].path, "/.ssh");
  EXPECT_FALSE(config.protect_repositories);
  // Cut anywhere, or longer, it is refused.
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(parse_config(bytes.substr(0, n), config, problem)) << n;
  EXPECT_FALSE(parse_config(bytes + "x", config, problem));
  EXPECT_FALSE(problem.empty());
}

TEST(GoferConfig, RefusesWhatItDoesNotUnderstand) {
  const Config wrong[] = {
      {.trees = {{"w", false}}},
      {.trees = {{"/a/../b", false}}},
      {.trees = {{std::string("/\0", 2), false}}},
      {.trees = {{"/" + std::string(5000, 'x'), false}}},
      {.rules = {{"x", Action::kRo}}},
      {.rules = {{"/x", static_cast<Action>(4)}}},
      {.rules = std::vector<Rule>(RuleSet::kMaxRules + 1, Rule{"/x", Action::kRo})},
      {.repeated = {{"/home/*"}, {}}},
      {.repeated = {{"home"}, {}}},
      {.repeated = {{"/h"}, {{".ssh", Action::kDeny}}}},
      {.rules = std::vector<Rule>(RuleSet::kMaxRules, Rule{"/x", Action::kRo}),
       .repeated = {{"/h"}, {}}},
      {.trees = std::vector<TreeConfig>(2000, TreeConfig{"/x", false})}};
  for (const Config& config : wrong) {
    Config parsed;
    std::string problem;
    EXPECT_FALSE(parse_config(encode_config(config), parsed, problem));
    EXPECT_FALSE(problem.empty());
  }
}

}  // namespace
}  // namespace uks::gofer
