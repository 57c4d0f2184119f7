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

TEST(GoferConfig, Parses) {
  Config config;
  std::string problem;
  ASSERT_TRUE(
      parse_config(R"({"trees":[{"root":"/","writable":false},{"root":"/w","writable":true}],
                               "rules":[{"path":"/h","action":"absent"},
                                        {"path":"/h/c","action":"ro","track":false}]})",
                   config, problem))
      << problem;
  ASSERT_EQ(config.trees.size(), 2u);
  EXPECT_TRUE(config.trees[1].writable);
  ASSERT_EQ(config.rules.size(), 2u);
  EXPECT_EQ(config.rules[0].action, Action::kAbsent);
  EXPECT_FALSE(config.rules[1].track);
}

TEST(GoferConfig, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"trees":{}})", R"({"trees":[{"root":"w"}]})",
        R"({"trees":[{"root":"/a/../b"}]})", R"({"trees":[{"root":"/","writable":1}]})",
        R"({"trees":[{"root":7}]})", R"({"trees":[],"rules":[{"path":"/x","action":"hide"}]})",
        R"({"trees":[],"rules":[{"path":"/x"}]})", R"({"trees":[],"rule":[]})",
        R"({"trees":[],"rules":[{"path":"/x","action":"ro","trak":false}]})",
        "{\"trees\":[{\"root\":\"/\\u0000\"}]}"}) {
    Config config;
    std::string problem;
    EXPECT_FALSE(parse_config(text, config, problem)) << text;
    EXPECT_FALSE(problem.empty());
  }
}

}  // namespace
}  // namespace uks::gofer
