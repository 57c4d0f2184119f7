// The environment policy.
#include "tools/cli/environment.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/cli/glob.h"

namespace uks::cli {
namespace {

bool has(const Environment& env, const std::string& variable) {
  return std::ranges::find(env.variables, variable) != env.variables.end();
}

Environment compute(const std::vector<std::string>& caller, const ExecOptions& options = {}) {
  return compute_environment(caller, options, "/w", true);
}

TEST(Globs, Names) {
  EXPECT_TRUE(name_matches("LC_*", "LC_ALL", false));
  EXPECT_TRUE(name_matches("*FLAGS", "CFLAGS", false));
  EXPECT_FALSE(name_matches("PATH", "PATHX", false));
  EXPECT_TRUE(name_matches("*token*", "MY_TOKEN_2", true));
  EXPECT_FALSE(name_matches("*TOKEN*", "my_token", false));
  EXPECT_TRUE(name_matches("a*b*c", "aXbbXc", false));
  EXPECT_FALSE(name_matches("a*b*c", "aXbbX", false));
  EXPECT_TRUE(name_matches("?", "x", false));
}

TEST(Environment, OnlyListedNamesPass) {
  const Environment env = compute({"PATH=/bin", "LC_ALL=C", "CFLAGS=-O2", "FOO=1", "LD_PRELOAD=x",
                                   "SSH_AUTH_SOCK=/s", "nonsense"});
  EXPECT_TRUE(has(env, "PATH=/bin"));
  EXPECT_TRUE(has(env, "LC_ALL=C"));
  EXPECT_TRUE(has(env, "CFLAGS=-O2"));
  EXPECT_FALSE(has(env, "FOO=1"));
  EXPECT_FALSE(has(env, "LD_PRELOAD=x"));
  EXPECT_FALSE(has(env, "SSH_AUTH_SOCK=/s"));
  EXPECT_TRUE(has(env, "TMPDIR=/tmp"));
}

TEST(Environment, CredentialsAreWithheldByName) {
  const Environment env =
      compute({"CARGO_REGISTRY_TOKEN=a", "NODE_AUTH_TOKEN=b", "npm_config_//r/:_authToken=c",
               "GO_SECRET=d", "GOOGLE_API_KEY=e", "GOOGLE_APPLICATION_CREDENTIALS=f",
               "PYTHON_PASSWORD=g", "GIT_AUTHOR_NAME=h"});
  ASSERT_EQ(env.variables.size(), 2u);
  EXPECT_TRUE(has(env, "GIT_AUTHOR_NAME=h"));
}

TEST(Environment, CredentialsAreWithheldByValue) {
  EXPECT_TRUE(has_url_user_info("https://u:p@host/x"));
  EXPECT_TRUE(has_url_user_info("direct,https://u@host"));
  EXPECT_TRUE(has_url_user_info("x postgres://u:p%40@h:5/db"));
  EXPECT_FALSE(has_url_user_info("https://host/a@b"));
  EXPECT_FALSE(has_url_user_info("https://host,u@x"));
  EXPECT_FALSE(has_url_user_info("u@host"));
  EXPECT_FALSE(has_url_user_info("https://@host"));
  EXPECT_FALSE(has(compute({"GOPROXY=https://u:p@h"}), "GOPROXY=https://u:p@h"));
}

TEST(Environment, FlagsWin) {
  ExecOptions options;
  options.pass_env = {"MY_TOKEN"};
  options.env = {"PATH=/x", "NEW=1", "TMPDIR=/else"};
  const Environment env = compute({"MY_TOKEN=t", "PATH=/bin"}, options);
  EXPECT_TRUE(has(env, "MY_TOKEN=t"));
  EXPECT_TRUE(has(env, "PATH=/x"));
  EXPECT_FALSE(has(env, "PATH=/bin"));
  EXPECT_TRUE(has(env, "NEW=1"));
  EXPECT_TRUE(has(env, "TMPDIR=/else"));
  EXPECT_EQ(
      std::ranges::count_if(env.variables, [](const auto& v) { return v.starts_with("TMPDIR="); }),
      1);
}

TEST(Environment, CleanKeepsTheBareNecessities) {
  ExecOptions options;
  options.clean_env = true;
  const Environment env = compute({"LANG=C", "HOME=/h", "CFLAGS=x"}, options);
  EXPECT_FALSE(has(env, "LANG=C"));
  EXPECT_TRUE(has(env, "HOME=/h"));
  EXPECT_TRUE(
      std::ranges::any_of(env.variables, [](const auto& v) { return v.starts_with("PATH="); }));
}

TEST(Environment, PwdFollowsTheWorkingDirectory) {
  EXPECT_TRUE(has(compute_environment({"PWD=/link"}, {}, "/real", true), "PWD=/link"));
  EXPECT_TRUE(has(compute_environment({"PWD=/old"}, {}, "/real", false), "PWD=/real"));
}

}  // namespace
}  // namespace uks::cli
