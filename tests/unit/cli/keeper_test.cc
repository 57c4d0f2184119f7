// The keeper's parts: exit codes, checks of children, the configuration's codec, escaping.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sentry/boot/config.h"
#include "tools/cli/child_files.h"
#include "tools/cli/exit_status.h"
#include "tools/cli/explain.h"
#include "tools/cli/host.h"
#include "tools/cli/launch.h"

namespace uks::cli {
namespace {

TEST(ExitStatus, Mapping) {
  EXPECT_EQ(exit_code_of(0), 0);
  EXPECT_EQ(exit_code_of(3 << 8), 3);
  EXPECT_EQ(exit_code_of(255 << 8), 255);
  EXPECT_EQ(exit_code_of(SIGKILL), 137);
  EXPECT_EQ(exit_code_of(SIGSEGV | 0x80), 139);
  EXPECT_EQ(exit_code_of(0x137f), 125);
}

TEST(ChildFiles, StatLines) {
  EXPECT_EQ(parse_stat_parent("12 (a b) S 7 12 12 0"), 7);
  EXPECT_EQ(parse_stat_parent("12 (a) R 9 (b) S 7 12"), 7);
  for (const char* bad :
       {"", "12", "12 (a)", "12 (a) S", "12 (a) S ", "12 (a) S x", "12 (a) S 7"}) {
    EXPECT_FALSE(parse_stat_parent(bad)) << bad;
  }
}

class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ == 0) {
      ::pause();
      ::_exit(0);
    }
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(ChildFiles, OnlyChildrenOfTheParentNamed) {
  const Sleeper sleeper;
  EXPECT_TRUE(open_child_text(sleeper.pid(), ::getpid(), "maps"));
  EXPECT_EQ(open_child_text(sleeper.pid(), ::getppid(), "maps").error(), ESRCH);
  EXPECT_EQ(open_child_text(sleeper.pid(), ::getpid(), "environ").error(), EINVAL);
  EXPECT_EQ(open_child_text(sleeper.pid(), ::getpid(), "../1/maps").error(), EINVAL);
  // The list of the sentry's children is of the sentry alone.
  EXPECT_TRUE(open_child_text(::getpid(), ::getpid(), "children"));
  EXPECT_EQ(open_child_text(sleeper.pid(), ::getpid(), "children").error(), EINVAL);
  EXPECT_EQ(open_child_mem(1, ::getpid()).error(), ESRCH);
  EXPECT_EQ(signal_child(sleeper.pid(), 1, SIGKILL).error(), ESRCH);
  EXPECT_EQ(signal_child(0, ::getpid(), SIGKILL).error(), ESRCH);
  EXPECT_EQ(signal_child(-1, ::getpid(), SIGKILL).error(), ESRCH);
  ASSERT_EQ(::waitpid(sleeper.pid(), nullptr, WNOHANG), 0);
  EXPECT_TRUE(signal_child(sleeper.pid(), ::getpid(), SIGKILL));
  siginfo_t info = {};
  ::waitid(P_PID, static_cast<id_t>(sleeper.pid()), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(info.si_status, SIGKILL);
}

SandboxConfig sample() {
  SandboxConfig c;
  c.argv = {"ls", "\xff\xfe", ""};
  c.env = {"A=\x80"};
  c.workdir = "/w";
  c.uid = 4294967294u;
  c.groups = {1, 2};
  c.ignored_signals = uint64_t{1} << 63;
  c.rlimits[7] = {1024, ~uint64_t{0}};
  c.stdio_open = {false, true, true};
  c.view.mounts.push_back({"/", MountKind::kOverlay, 0, false, uint64_t{1} << 40, 0755, ""});
  c.view.files.push_back({"/etc/x", std::string("a\0b", 3), 0100644, 1, 2});
  return c;
}

TEST(SandboxConfig, RoundTrip) {
  const SandboxConfig c = sample();
  const auto d = decode_config(encode_config(c));
  ASSERT_TRUE(d);
  EXPECT_EQ(d->argv, c.argv);
  EXPECT_EQ(d->env, c.env);
  EXPECT_EQ(d->uid, c.uid);
  EXPECT_EQ(d->groups, c.groups);
  EXPECT_EQ(d->ignored_signals, c.ignored_signals);
  EXPECT_EQ(d->rlimits[7].soft, 1024u);
  EXPECT_EQ(d->rlimits[7].hard, ~uint64_t{0});
  EXPECT_EQ(d->stdio_open, c.stdio_open);
  ASSERT_EQ(d->view.mounts.size(), 1u);
  EXPECT_EQ(d->view.mounts[0].size_limit, uint64_t{1} << 40);
  EXPECT_EQ(d->view.files[0].content, c.view.files[0].content);
  auto file = make_config_file("test");
  ASSERT_TRUE(file);
  ASSERT_TRUE(fill_config_file(file->get(), encode_config(c)));
  EXPECT_TRUE(read_config(file->get()));
  EXPECT_LT(::pwrite(file->get(), "x", 1, 0), 0);
}

TEST(SandboxConfig, MalformedBytesAreRefused) {
  const std::string good = encode_config(sample());
  EXPECT_FALSE(decode_config(""));
  EXPECT_FALSE(decode_config("\xc0"));
  for (size_t length = 0; length < good.size(); length += 7)
    EXPECT_FALSE(decode_config(good.substr(0, length)));
  // Any result will do, as long as there is one.
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x5a);
    (void)decode_config(bytes);
  }
}

TEST(Explain, NamesCannotForgeLines) {
  EXPECT_EQ(escape_controls("a\n\x1b[2Jb\t\x7f"), "a\\n\\x1b[2Jb\\t\\x7f");
  EXPECT_EQ(escape_controls("\xc3\xa9\xc2\xa0"), "\xc3\xa9\xc2\xa0");
  EXPECT_EQ(escape_controls("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(escape_controls("\x9b\xc3"), "\\x9b\\xc3");
}

TEST(Host, Passwd) {
  const auto accounts =
      parse_passwd("root:x:0:0:r:/root:/bin/sh\nbad\nx:y:z:0::/h:/s\nu:x:1000:100::/home/u:\n#c\n");
  ASSERT_EQ(accounts.size(), 2u);
  EXPECT_EQ(accounts[1].uid, 1000u);
  EXPECT_EQ(accounts[1].gid, 100u);
  EXPECT_EQ(accounts[1].home, "/home/u");
}

}  // namespace
}  // namespace uks::cli
