// What `uks ps` prints.
#include "tools/cli/sandbox_list.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/cli/ps.h"

namespace uks::cli {
namespace {

using Strings = std::vector<std::string>;

TEST(SandboxList, CommandsFollowTheFlags) {
  EXPECT_EQ(command_of({"uks", "exec", "--ro", "--", "--", "ls", "--", "x"}),
            (Strings{"ls", "--", "x"}));
  EXPECT_EQ(command_of({"/bin/uks", "-q", "exec", "--env", "A=1", "--", "sh"}), (Strings{"sh"}));
  EXPECT_EQ(command_of({"uks", "something", "else"}), (Strings{"something", "else"}));
  EXPECT_TRUE(command_of({}).empty());
}

std::vector<RunningSandbox> example() {
  return {{10,
           1000,
           3725,
           {"sh", "-c", "echo\n\x1b[31m"},
           {{10, "keeper", 1, 2000}, {11, "sentry", 9, 9000}}}};
}

TEST(SandboxList, TextEscapesCommands) {
  const std::string text = sandboxes_text(example(), false);
  EXPECT_NE(text.find("1:02:05"), std::string::npos);
  EXPECT_NE(text.find("sh -c echo\\n\\x1b[31m\n"), std::string::npos);
  EXPECT_EQ(text.find("sentry"), std::string::npos);
  EXPECT_NE(sandboxes_text(example(), true).find("sentry"), std::string::npos);
}

TEST(SandboxList, Json) {
  const auto json = nlohmann::json::parse(sandboxes_json(example(), true), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["sandboxes"][0]["pid"], 10);
  EXPECT_EQ(json["sandboxes"][0]["processes"][1]["role"], "sentry");
}

TEST(SandboxList, NoOneElsesAreFound) {
  // Nobody has this id (see (uid_t)-1 in chown(2)).
  EXPECT_TRUE(find_sandboxes(static_cast<uid_t>(-1), false).empty());
}

}  // namespace
}  // namespace uks::cli
