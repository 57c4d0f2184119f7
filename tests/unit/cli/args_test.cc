// The grammar of the command line.
#include "tools/cli/args.h"

#include <gtest/gtest.h>

namespace uks::cli {
namespace {

ExecOptions options_of(const std::vector<std::string>& args) {
  const ParsedArgs parsed = parse_args(args);
  if (const auto* error = std::get_if<UsageError>(&parsed)) {
    ADD_FAILURE() << error->message;
    return {};
  }
  return std::get<ExecOptions>(parsed);
}

std::string error_of(const std::vector<std::string>& args) {
  const ParsedArgs parsed = parse_args(args);
  const auto* error = std::get_if<UsageError>(&parsed);
  return error ? error->message : "no error";
}

using Strings = std::vector<std::string>;

TEST(Args, CommandIsEverythingAfterTheDashes) {
  const ExecOptions o = options_of({"exec", "--", "ls", "--ro", "--", "-x", ""});
  EXPECT_EQ(o.command, (Strings{"ls", "--ro", "--", "-x", ""}));
  EXPECT_TRUE(o.ro.empty());
}

TEST(Args, ListFlagsTakeOneValueEach) {
  const ExecOptions o =
      options_of({"exec", "--ro", "/a", "--ro=/b", "--rw", ".", "--env", "A=1 2", "--env",
                  "B=", "--hide", "*.pem", "--pass-env", "X", "--tmpfs", "/t", "--", "c"});
  EXPECT_EQ(o.ro, (Strings{"/a", "/b"}));
  EXPECT_EQ(o.rw, (Strings{"."}));
  EXPECT_EQ(o.env, (Strings{"A=1 2", "B="}));
  EXPECT_EQ(o.hide, (Strings{"*.pem"}));
  EXPECT_EQ(o.pass_env, (Strings{"X"}));
  EXPECT_EQ(o.tmpfs, (Strings{"/t"}));
  EXPECT_EQ(o.command, (Strings{"c"}));
}

TEST(Args, ValuesMayLookLikeFlagsOrLists) {
  const ExecOptions o =
      options_of({"exec", "--env", "A=[1,2]", "--ro", "-odd", "--hide", "[x]", "--", "c"});
  EXPECT_EQ(o.env, (Strings{"A=[1,2]"}));
  EXPECT_EQ(o.ro, (Strings{"-odd"}));
  EXPECT_EQ(o.hide, (Strings{"[x]"}));
}

TEST(Args, StraceTakesItsFileOnlyWithEquals) {
  const ExecOptions plain = options_of({"exec", "--strace", "--", "c"});
  EXPECT_TRUE(plain.strace);
  EXPECT_EQ(plain.strace_file, "");
  const ExecOptions file = options_of({"exec", "--strace=out.txt", "--", "c"});
  EXPECT_TRUE(file.strace);
  EXPECT_EQ(file.strace_file, "out.txt");
  EXPECT_FALSE(options_of({"exec", "--", "c"}).strace);
}

TEST(Args, UserAndTimeout) {
  const ExecOptions o = options_of({"exec", "--user", "1000:5", "--timeout", "1.5s", "--", "c"});
  ASSERT_TRUE(o.user);
  EXPECT_EQ(o.user->uid, 1000u);
  EXPECT_EQ(o.user->gid, 5u);
  EXPECT_EQ(o.timeout_ms, 1500);
  EXPECT_FALSE(parse_user("0")->gid);
  for (const char* bad : {"", "root", "1:", ":1", "-1", "4294967295", "1:2:3", "1 "})
    EXPECT_FALSE(parse_user(bad)) << bad;
}

TEST(Args, Durations) {
  EXPECT_EQ(parse_duration_ms("30"), 30'000);
  EXPECT_EQ(parse_duration_ms("2m"), 120'000);
  EXPECT_EQ(parse_duration_ms("1h"), 3'600'000);
  EXPECT_EQ(parse_duration_ms("1d"), 86'400'000);
  EXPECT_EQ(parse_duration_ms("0.0001"), 1);
  for (const char* bad : {"", "s", "-1", "1x", "1 s", "nan", "inf", "1e400", "99999999999h"}) {
    EXPECT_FALSE(parse_duration_ms(bad)) << bad;
  }
}

TEST(Args, AWordBeforeTheCommand) {
  EXPECT_NE(error_of({"exec", "box", "--", "ls"}).find("unexpected box"), std::string::npos);
  EXPECT_NE(error_of({"exec", "--quiet", "box", "ls", "-l"}).find("uks exec [FLAGS] -- COMMAND"),
            std::string::npos);
  EXPECT_NE(error_of({"exec", "--strace", "file", "--", "ls"}).find("--strace=FILE"),
            std::string::npos);
}

TEST(Args, NothingToRun) {
  EXPECT_NE(error_of({"exec"}).find("uks exec -- COMMAND"), std::string::npos);
  EXPECT_NE(error_of({"exec", "--"}).find("nothing to run"), std::string::npos);
  EXPECT_NE(error_of({}).find("uks exec -- COMMAND"), std::string::npos);
  EXPECT_TRUE(options_of({"exec", "--explain"}).explain);
}

TEST(Args, UnknownFlagsAreOneLine) {
  EXPECT_EQ(error_of({"exec", "--bogus", "--", "c"}),
            "unknown flag --bogus (see `uks exec --help`)");
  EXPECT_EQ(error_of({"exec", "--bogus=1", "--", "c"}),
            "unknown flag --bogus (see `uks exec --help`)");
  EXPECT_EQ(error_of({"exec", "-z", "--", "c"}), "unknown flag -z (see `uks exec --help`)");
  EXPECT_EQ(error_of({"--bogus", "exec", "--", "c"}), "unknown flag --bogus (see `uks --help`)");
  EXPECT_NE(error_of({"run", "x"}).find("unknown subcommand run"), std::string::npos);
  for (const Strings& args : {Strings{"exec", "--ro"},
                              {"exec", "--platform", "kvm", "--", "c"},
                              {"exec", "--env", "K", "--", "c"},
                              {"exec", "--log-level", "loud", "--", "c"},
                              {"exec", "--hostname", "a b", "--", "c"},
                              {"exec", "--quiet=maybe", "--", "c"},
                              {"exec", "--ro=", "--", "c"}}) {
    const std::string message = error_of(args);
    EXPECT_NE(message, "no error") << args.back();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Args, HelpAndVersion) {
  for (const Strings& args :
       {Strings{"--help"}, {"-h"}, {"--version"}, {"exec", "--help"}, {"exec", "-h", "--", "c"}}) {
    EXPECT_TRUE(std::holds_alternative<PrintText>(parse_args(args)));
  }
  EXPECT_EQ(options_of({"exec", "--", "ls", "--help"}).command, (Strings{"ls", "--help"}));
}

TEST(Args, GlobalsReachExec) {
  const ExecOptions o = options_of({"--log-level", "debug", "-q", "exec", "--", "c"});
  EXPECT_EQ(o.log_level, "debug");
  EXPECT_TRUE(o.quiet);
}

TEST(Args, TheLastOfTwoWins) {
  EXPECT_EQ(options_of({"exec", "--hostname", "a", "--hostname", "b", "--", "c"}).hostname, "b");
}

}  // namespace
}  // namespace uks::cli
