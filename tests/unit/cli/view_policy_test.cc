// The default view and what flags change in it, on made-up hosts.
#include "tools/cli/view_policy.h"
#include "gofer/server/config.h"
#include "tools/cli/explain.h"
#include "tools/cli/policy_data.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "tools/cli/gofer_config.h"
#include "tools/cli/mount_aliases.h"
#include "tools/cli/paths.h"

namespace uks::cli {
namespace {

using Strings = std::vector<std::string>;

class FakeHost final : public Host {
 public:
  FakeHost() {
    uid = gid = 1000;
    cwd = "/home/u/proj";
    environment = {"HOME=/home/u", "PATH=/usr/bin:/home/u/tools/bin:/home/u/.ssh/bin"};
    accounts = {
        {0, 0, "/root"}, {1000, 1000, "/home/u"}, {1001, 1001, "/home/v"}, {33, 33, "/var/www"}};
    for (const char* dir :
         {"/", "/etc", "/usr", "/tmp", "/home", "/home/u", "/home/v", "/home/u/proj",
          "/home/u/proj/sub", "/home/u/tools/bin", "/home/u/.ssh", "/home/u/.ssh/bin", "/tmp/work",
          "/data", "/root", "/var/www", "/run/x"}) {
      files[dir] = FileKind::kDirectory;
    }
    files["/etc/shadow"] = files["/etc/gshadow"] = files["/etc/passwd"] = FileKind::kFile;
  }
  FileKind kind(const std::string& path) const override {
    if (links.contains(path)) return FileKind::kLink;
    const auto it = files.find(path);
    return it == files.end() ? FileKind::kMissing : it->second;
  }
  std::optional<std::string> real_path(const std::string& path) const override {
    const auto link = links.find(path);
    const std::string real = link == links.end() ? path : link->second;
    if (!files.contains(real)) return std::nullopt;
    return real;
  }
  std::optional<std::string> read_text(const std::string& path, size_t) const override {
    if (path == "/etc/passwd")
      return "root:x:0:0:r:/root:/bin/sh\nu:x:1000:1000::/home/u:/bin/sh\nbroken\n";
    if (path == "/proc/self/mountinfo") return mountinfo;
    return std::nullopt;
  }
  std::string mountinfo;
  std::map<std::string, FileKind> files;
  std::map<std::string, std::string> links;
};

// What the gofer would do with a path by the literal rules; "" if no rule holds.
std::string action_at(const View& view, const std::string& path) {
  const GoferRule* best = nullptr;
  for (const GoferRule& rule : view.rules) {
    if (is_at_or_below(path, rule.path) && (!best || rule.path.size() > best->path.size()))
      best = &rule;
  }
  for (const std::string& home : view.other_homes) {
    for (const std::string_view secret : policy::home_secrets()) {
      if (is_at_or_below(path, join(home, secret))) return action_name(RuleAction::kDeny);
    }
  }
  return best ? action_name(best->action) : "";
}

const ViewMount* mount_at(const View& view, const std::string& target) {
  const ViewMount* found = nullptr;
  for (const ViewMount& m : view.config.mounts) {
    if (m.target == target) found = &m;
  }
  return found;
}

bool passes(const View& view, const std::string& dir) {
  const ViewMount* m = mount_at(view, dir);
  return m && m->kind == MountKind::kGofer && !m->read_only && view.trees[m->tree].writable;
}

TEST(View, DefaultHasTheWorkspaceAndTheAllowList) {
  FakeHost host;
  const View view = compute_view({}, host);
  EXPECT_TRUE(view.errors.empty());
  EXPECT_TRUE(view.notices.empty());
  EXPECT_TRUE(view.workspace_passes);
  EXPECT_TRUE(passes(view, "/home/u/proj"));
  EXPECT_EQ(view.workdir, "/home/u/proj");
  EXPECT_EQ(view.config.mounts.front().target, "/");
  EXPECT_EQ(view.config.mounts.front().kind, MountKind::kOverlay);
  EXPECT_EQ(action_at(view, "/home/u/letters"), "absent");
  EXPECT_EQ(action_at(view, "/home/u/.ssh/id"), "absent");
  EXPECT_EQ(action_at(view, "/home/u/.gitconfig"), "ro");
  EXPECT_EQ(action_at(view, "/home/u/.cargo/bin/x"), "ro");
  EXPECT_EQ(action_at(view, "/home/u/.cargo/credentials.toml"), "deny");
  EXPECT_EQ(action_at(view, "/home/u/.config/git/credentials"), "deny");
  EXPECT_EQ(action_at(view, "/home/u/tools/bin/x"), "ro");
  EXPECT_EQ(action_at(view, "/home/u/.ssh/bin"), "absent");
  // Known by inode too, unlike the home as a whole.
  EXPECT_TRUE(std::ranges::any_of(
      view.rules, [](const GoferRule& r) { return r.path == "/home/u/.ssh" && r.track; }));
  EXPECT_TRUE(std::ranges::any_of(
      view.rules, [](const GoferRule& r) { return r.path == "/home/u" && !r.track; }));
  EXPECT_EQ(action_at(view, "/home/u/proj/x"), "rw");
  EXPECT_EQ(action_at(view, "/etc/shadow"), "absent");
  EXPECT_EQ(action_at(view, "/etc/hosts"), "");
  for (const char* own : {"/tmp", "/dev", "/proc", "/sys", "/run"})
    EXPECT_TRUE(mount_at(view, own)) << own;
  EXPECT_EQ(view.config.files.size(), 3u);
}

TEST(View, ARepositoryAboveIsNamed) {
  FakeHost host;
  host.files["/home/u/proj/.git"] = FileKind::kDirectory;
  EXPECT_TRUE(compute_view({}, host).notices.empty());
  host.cwd = "/home/u/proj/sub";
  const View view = compute_view({}, host);
  ASSERT_EQ(view.notices.size(), 1u);
  EXPECT_NE(view.notices[0].find("/home/u/proj is not shown"), std::string::npos);
  EXPECT_NE(view.notices[0].find("--ro /home/u/proj"), std::string::npos);
  EXPECT_TRUE(view.workspace_passes);
  ExecOptions options;
  options.ro = {"/home/u/proj"};
  EXPECT_TRUE(compute_view(options, host).notices.empty());
  // A repository of its own, or one that shows anyway.
  host.files["/home/u/proj/sub/.git"] = FileKind::kFile;
  EXPECT_TRUE(compute_view({}, host).notices.empty());
  host.files["/data/.git"] = host.files["/data/sub"] = FileKind::kDirectory;
  host.cwd = "/data/sub";
  EXPECT_TRUE(compute_view({}, host).notices.empty());
  host.files["/tmp/r"] = host.files["/tmp/r/.git"] = host.files["/tmp/r/a"] = FileKind::kDirectory;
  host.cwd = "/tmp/r/a";
  EXPECT_EQ(compute_view({}, host).notices.size(), 1u);
}

TEST(View, ShadowIsLocked) {
  FakeHost host;
  const View view = compute_view({}, host);
  const auto shadow = std::ranges::find(view.config.files, "/etc/shadow", &ViewFile::path);
  ASSERT_NE(shadow, view.config.files.end());
  EXPECT_EQ(shadow->content, "root:!:19000:0:99999:7:::\nu:!:19000:0:99999:7:::\n");
}

TEST(View, SomeDirectoriesAreNoWorkspace) {
  for (const char* dir :
       {"/", "/home", "/home/u", "/home/v", "/etc", "/usr", "/tmp", "/root", "/var/www"}) {
    FakeHost host;
    host.cwd = dir;
    const View view = compute_view({}, host);
    EXPECT_FALSE(view.workspace_passes) << dir;
    EXPECT_FALSE(passes(view, dir)) << dir;
    ASSERT_EQ(view.notices.size(), 1u) << dir;
    EXPECT_NE(view.notices[0].find("--rw ."), std::string::npos);
    EXPECT_EQ(view.workdir, dir);
  }
}

TEST(View, AWorkspaceBelowTmpShowsThrough) {
  FakeHost host;
  host.cwd = "/tmp/work";
  const View view = compute_view({}, host);
  EXPECT_TRUE(passes(view, "/tmp/work"));
  const auto position = [&](const char* target) {
    return std::ranges::find(view.config.mounts, target, &ViewMount::target) -
           view.config.mounts.begin();
  };
  EXPECT_LT(position("/tmp"), position("/tmp/work"));
}

TEST(View, RwOfHomeKeepsSecretsShut) {
  FakeHost host;
  host.cwd = "/home/u";
  ExecOptions options;
  options.rw = {"."};
  const View view = compute_view(options, host);
  EXPECT_TRUE(view.workspace_passes);
  EXPECT_TRUE(view.notices.empty());
  EXPECT_TRUE(passes(view, "/home/u"));
  EXPECT_EQ(action_at(view, "/home/u/letters"), "rw");
  EXPECT_EQ(action_at(view, "/home/u/.ssh/id"), "deny");
}

TEST(View, RoOfHomeOpensItBeneathTheOverlay) {
  FakeHost host;
  ExecOptions options;
  options.ro = {"~"};
  const View view = compute_view(options, host);
  EXPECT_EQ(action_at(view, "/home/u/letters"), "ro");
  EXPECT_EQ(action_at(view, "/home/u/.aws"), "deny");
  EXPECT_FALSE(mount_at(view, "/home/u"));
  EXPECT_TRUE(passes(view, "/home/u/proj"));
}

TEST(View, RoOfTheWorkspaceReplacesIt) {
  FakeHost host;
  ExecOptions options;
  options.ro = {"."};
  const View view = compute_view(options, host);
  EXPECT_FALSE(view.workspace_passes);
  ASSERT_TRUE(mount_at(view, "/home/u/proj"));
  EXPECT_TRUE(mount_at(view, "/home/u/proj")->read_only);
  EXPECT_EQ(action_at(view, "/home/u/proj/x"), "ro");
}

TEST(View, ASecretDirectoryIsNoWorkspaceUnlessNamed) {
  FakeHost host;
  host.cwd = "/home/u/.ssh";
  const View view = compute_view({}, host);
  EXPECT_FALSE(view.workspace_passes);
  EXPECT_EQ(view.workdir, "/home/u");
  ExecOptions options;
  options.rw = {"."};
  EXPECT_EQ(action_at(compute_view(options, host), "/home/u/.ssh/id"), "rw");
}

TEST(View, HideWins) {
  FakeHost host;
  host.files["/home/u/proj/.env"] = FileKind::kFile;
  host.links["/home/u/proj/link"] = "/data";
  ExecOptions options;
  options.hide = {".env", "link", "~/.cargo", "**/*.pem", "/etc/resolv.conf"};
  const View view = compute_view(options, host);
  EXPECT_EQ(action_at(view, "/home/u/proj/.env"), "deny");
  EXPECT_EQ(action_at(view, "/home/u/proj/link"), "deny");
  EXPECT_EQ(action_at(view, "/data/x"), "deny");
  EXPECT_EQ(action_at(view, "/home/u/.cargo/bin"), "deny");
  EXPECT_TRUE(std::ranges::any_of(
      view.rules, [](const GoferRule& r) { return r.path == "/home/u/proj/**/*.pem"; }));
  EXPECT_FALSE(std::ranges::any_of(view.config.files,
                                   [](const ViewFile& f) { return f.path == "/etc/resolv.conf"; }));
}

TEST(View, NamesThatLookLikePatternsAreNotShown) {
  FakeHost host;
  host.cwd = "/home/u/a*";
  host.files["/home/u/a*"] = FileKind::kDirectory;
  const View view = compute_view({}, host);
  EXPECT_FALSE(view.workspace_passes);
  EXPECT_EQ(action_at(view, "/home/u/a*"), "absent");
  ExecOptions options;
  options.rw = {"."};
  EXPECT_EQ(compute_view(options, host).errors.size(), 1u);
}

TEST(View, ASecretBehindALinkStaysASecret) {
  FakeHost host;
  host.links["/home/u/.npmrc"] = "/home/u/dotfiles/npmrc";
  host.links["/home/u/.netrc"] = "/data/netrc";
  host.files["/home/u/dotfiles/npmrc"] = host.files["/data/netrc"] = FileKind::kFile;
  View view = compute_view({}, host);
  EXPECT_EQ(action_at(view, "/home/u/dotfiles/npmrc"), "absent");
  EXPECT_EQ(action_at(view, "/data/netrc"), "deny");
  ExecOptions options;
  options.ro = {"~"};
  view = compute_view(options, host);
  EXPECT_EQ(action_at(view, "/home/u/dotfiles/npmrc"), "deny");
  EXPECT_EQ(action_at(view, "/home/u/dotfiles/x"), "ro");
}

TEST(View, HidingTheWorkspace) {
  FakeHost host;
  ExecOptions options;
  options.hide = {"."};
  const View view = compute_view(options, host);
  EXPECT_FALSE(view.workspace_passes);
  EXPECT_FALSE(mount_at(view, "/home/u/proj"));
  EXPECT_EQ(action_at(view, "/home/u/proj/x"), "deny");
}

TEST(View, NothingGeneratedReachesTheHost) {
  FakeHost host;
  ExecOptions options;
  options.rw = {"/etc"};
  const View view = compute_view(options, host);
  EXPECT_TRUE(view.config.files.empty());
  EXPECT_EQ(action_at(view, "/etc/shadow"), "absent");
  options.rw = {"/"};
  const View whole = compute_view(options, host);
  EXPECT_TRUE(whole.config.files.empty());
  EXPECT_EQ(whole.config.mounts.front().kind, MountKind::kGofer);
  EXPECT_EQ(action_at(whole, "/home/u/.ssh"), "deny");
  EXPECT_EQ(std::ranges::count(whole.config.mounts, std::string("/"), &ViewMount::target), 1);
}

TEST(View, MissingPathsAreErrors) {
  FakeHost host;
  ExecOptions options;
  options.ro = {"/none"};
  ASSERT_EQ(compute_view(options, host).errors.size(), 1u);
  options.ro = {};
  options.tmpfs = {"/home/u/proj/none"};
  EXPECT_EQ(compute_view(options, host).errors.size(), 1u);
  options.tmpfs = {"/home/u/proj/sub"};
  EXPECT_TRUE(compute_view(options, host).errors.empty());
}

TEST(View, VirtualRootAndOtherUsers) {
  FakeHost host;
  ExecOptions options;
  options.user = UserSpec{0, std::nullopt};
  View view = compute_view(options, host);
  EXPECT_TRUE(view.identity.virtual_root);
  EXPECT_EQ(view.identity.gid, 0u);
  host.uid = host.gid = 0;
  host.environment = {"HOME=/root"};
  options.user = UserSpec{1001, std::nullopt};
  view = compute_view(options, host);
  EXPECT_FALSE(view.identity.virtual_root);
  EXPECT_EQ(view.identity.gid, 1001u);
  EXPECT_EQ(action_at(view, "/home/v/.ssh/id"), "deny");
}

TEST(View, AChangedHomeDoesNotOpenTheRealOne) {
  FakeHost host;
  host.environment = {"HOME=/data"};
  const View view = compute_view({}, host);
  EXPECT_EQ(action_at(view, "/home/u/letters"), "absent");
  EXPECT_EQ(action_at(view, "/data/letters"), "absent");
}

TEST(View, AHomeBelowTmpIsThere) {
  FakeHost host;
  host.files["/tmp/h"] = host.files["/tmp/h/proj"] = FileKind::kDirectory;
  host.environment = {"HOME=/tmp/h"};
  host.cwd = "/tmp/h";
  View view = compute_view({}, host);
  ASSERT_TRUE(mount_at(view, "/tmp/h"));
  EXPECT_EQ(mount_at(view, "/tmp/h")->kind, MountKind::kOverlay);
  EXPECT_EQ(view.trees[mount_at(view, "/tmp/h")->tree].root, "/tmp/h");
  EXPECT_EQ(view.workdir, "/tmp/h");
  EXPECT_EQ(action_at(view, "/tmp/h/x"), "absent");
  host.cwd = "/tmp/h/proj";
  view = compute_view({}, host);
  EXPECT_TRUE(passes(view, "/tmp/h/proj"));
}

TEST(View, HomesThatAreTheSystemAreNotHidden) {
  for (const char* home : {"/", "/usr", "/etc", "/usr/sbin", ""}) {
    FakeHost host;
    host.accounts.clear();
    host.environment = {std::string("HOME=") + home};
    EXPECT_EQ(protected_home(host), "") << home;
    EXPECT_EQ(action_at(compute_view({}, host), "/usr/bin/ls"), "") << home;
  }
}

TEST(View, RunIsNotAWorkspaceAndHasNoHostDirectories) {
  FakeHost host;
  host.cwd = "/run/x";
  const View view = compute_view({}, host);
  EXPECT_FALSE(view.workspace_passes);
  EXPECT_EQ(view.workdir, "/run");
  ASSERT_EQ(view.notices.size(), 1u);
  EXPECT_EQ(view.notices[0],
            "the current directory is a system directory: starting in /run (--rw . shows it)");
}

// Where the current directory is not there, the command starts as near to it as there is something.
TEST(View, StartsInTheNearestDirectoryThatIsThere) {
  FakeHost host;
  for (const char* dir : {"/dev", "/dev/shm", "/dev/shm/work", "/dev/net", "/tmp/work/sub"})
    host.files[dir] = FileKind::kDirectory;
  const auto start = [&](const char* cwd, const ExecOptions& options = {}) {
    host.cwd = cwd;
    const View view = compute_view(options, host);
    EXPECT_EQ(view.notices.size(), view.workdir == cwd && view.workspace_passes ? 0u : 1u) << cwd;
    return view.workdir;
  };
  EXPECT_EQ(start("/dev/shm/work"), "/dev/shm");
  EXPECT_EQ(start("/dev/net"), "/dev");
  EXPECT_EQ(start("/sys/kernel/debug"), "/sys");
  EXPECT_EQ(start("/tmp/work/sub"), "/tmp/work/sub");
  EXPECT_EQ(start("/etc/x"), "/etc/x");
  EXPECT_EQ(start("/home/u/.ssh/bin"), "/home/u");
  ExecOptions options;
  options.hide = {"."};
  EXPECT_EQ(start("/tmp/work/sub", options), "/tmp");
  EXPECT_EQ(start("/home/u/proj", options), "/home/u");
  EXPECT_EQ(start("/data/sub", options), "/data");
  // What leads to something shown is there as well.
  host.files["/data/sub"] = FileKind::kDirectory;
  options.hide = {"/tmp/work/sub"};
  options.rw = {"/tmp/work/deep/er"};
  host.files["/tmp/work/deep"] = host.files["/tmp/work/deep/er"] = FileKind::kDirectory;
  EXPECT_EQ(start("/tmp/work/sub", options), "/tmp/work");
  options = {};
  options.workdir = "/dev/shm/work";  // asked for: nothing else will do
  host.cwd = "/home/u/proj";
  EXPECT_EQ(compute_view(options, host).workdir, "/dev/shm/work");
}

TEST(View, ATmpfsInPlaceOfTheWorkspaceIsWhereTheCommandStarts) {
  FakeHost host;
  ExecOptions options;
  options.tmpfs = {"."};
  for (const char* dir : {"/tmp/work", "/home/u/proj", "/data"}) {
    host.cwd = dir;
    const View view = compute_view(options, host);
    EXPECT_EQ(view.workdir, dir);
    EXPECT_TRUE(view.notices.empty()) << view.notices[0];
    ASSERT_TRUE(mount_at(view, dir));
    EXPECT_EQ(mount_at(view, dir)->kind, MountKind::kTmpfs);
  }
}

// On Fedora's image-based systems /var is a bind mount of /sysroot/ostree/deploy/OS/var; others
// mount a file system's top with all its subvolumes.
TEST(View, HiddenPlacesAreHiddenUnderTheirOtherNamesToo) {
  FakeHost host;
  host.files["/home/u/.aws"] = FileKind::kDirectory;
  host.mountinfo =
      "21 1 0:30 /root / rw - btrfs /dev/sda rw\n"
      "22 21 0:30 /home /home rw - btrfs /dev/sda rw\n"
      "23 21 0:30 / /mnt/top\\040level rw - btrfs /dev/sda rw\n"
      "24 21 0:30 /home/u/.aws /srv/keys rw - btrfs /dev/sda rw\n"
      "25 21 0:30 /home/u/site /srv/www rw - btrfs /dev/sda rw\n"
      "26 21 0:31 /home /other rw - btrfs /dev/sdb rw\n";
  ExecOptions options;
  options.hide = {"/data"};
  const View view = compute_view(options, host);
  EXPECT_EQ(action_at(view, "/mnt/top level/home/u/.ssh/id_rsa"), "absent");
  EXPECT_EQ(action_at(view, "/mnt/top level/home/u/letters"), "absent");
  EXPECT_EQ(action_at(view, "/mnt/top level/root/data/x"), "deny");
  EXPECT_EQ(action_at(view, "/srv/keys/credentials"), "absent");
  EXPECT_EQ(action_at(view, "/srv/www/index.html"), "");
  EXPECT_EQ(action_at(view, "/other/u/.ssh"), "");
  EXPECT_EQ(action_at(view, "/home/u/proj/x"), "rw");
}

// Root can read everybody's files: what is secret in each home is told once, not for each of them.
TEST(View, HomesOfOthersAreRefusedTogetherUnlessOneIsSpecial) {
  FakeHost host;
  host.uid = host.gid = 0;
  host.environment = {"HOME=/root"};
  host.cwd = "/data";
  ExecOptions options;
  options.rw = {"/data"};
  const size_t rules = compute_view(options, host).rules.size();
  EXPECT_EQ(compute_view(options, host).other_homes, Strings({"/home/u", "/home/v"}));
  gofer::Config config;
  std::string problem;
  ASSERT_TRUE(
      gofer::parse_config(encode_gofer_config(compute_view(options, host), true), config, problem))
      << problem;
  const gofer::RuleSet set(config.rules, config.repeated);
  EXPECT_EQ(set.at("/home/v/.ssh/id_rsa", gofer::Action::kRo).action, gofer::Action::kRo);
  auto state = set.root(gofer::Action::kRo);
  for (const char* name : {"home", "v", ".ssh"}) state = set.child(state, name);
  EXPECT_EQ(state.action, gofer::Action::kDeny);

  // What is shown in one decides there.
  options.ro = {"/home/u/proj"};
  View view = compute_view(options, host);
  EXPECT_EQ(view.other_homes, Strings({"/home/v"}));
  EXPECT_GT(view.rules.size(), rules + 100);
  EXPECT_EQ(action_at(view, "/home/u/proj/x"), "ro");
  EXPECT_EQ(action_at(view, "/home/u/.ssh/x"), "deny");
  // Nothing is refused one by one below a hidden place: there it is not seen at all.
  options.ro = {};
  options.hide = {"/home"};
  view = compute_view(options, host);
  EXPECT_TRUE(view.other_homes.empty());
  for (const GoferRule& rule : view.rules) EXPECT_FALSE(is_below(rule.path, "/home")) << rule.path;
}

TEST(View, HomesOfOthersUnderOtherNames) {
  FakeHost host;
  host.uid = host.gid = 0;
  host.environment = {"HOME=/root"};
  host.cwd = "/home/v/.ssh";
  for (const char* dir : {"/var/lib/svc", "/home/v/.ssh", "/dots", "/dots/keys"})
    host.files[dir] = FileKind::kDirectory;
  host.accounts.push_back({110, 110, "/var/lib/svc"});
  host.accounts.push_back({70000, 70000, "/home/w*"});
  host.files["/home/w*"] = FileKind::kDirectory;
  host.links["/home/v/.kube"] = "/dots/keys";
  host.links["/home/v/.aws"] = "/usr";  // a trap for root
  host.files["/home/u/.netrc"] = FileKind::kFile;
  host.mountinfo =
      "21 1 0:30 / / rw - ext4 /dev/sda rw\n"
      "22 21 0:30 /home /data/homes rw - ext4 /dev/sda rw\n"
      "23 21 0:30 /home/u/.config/gh /srv/gh rw - ext4 /dev/sda rw\n"
      "24 21 0:31 /top /home/v/.gnupg rw - ext4 /dev/sdb rw\n"
      "25 21 0:31 / /mnt rw - ext4 /dev/sdb rw\n";
  const View view = compute_view({}, host);
  for (const char* path :
       {"/home/u/.ssh/id", "/home/v/.ssh/id", "/data/homes/u/.ssh/id", "/srv/gh/hosts.yml",
        "/mnt/top/x", "/var/lib/svc/.ssh/id", "/home/w?/.ssh/id", "/dots/keys/config"}) {
    EXPECT_EQ(action_at(view, path), "deny") << path;
  }
  for (const char* path : {"/usr/bin/ls", "/home/u/letters", "/mnt/other", "/dots/x"})
    EXPECT_EQ(action_at(view, path), "") << path;
  // Known by inode, for its hard links.
  EXPECT_TRUE(std::ranges::any_of(
      view.rules, [](const GoferRule& r) { return r.path == "/home/u/.netrc" && r.track; }));
  EXPECT_FALSE(view.workspace_passes);
}

TEST(RealHost, SaysWhatLstatAndRealpathSay) {
  char dir[] = "/tmp/uks-host-XXXXXX";
  ASSERT_NE(::mkdtemp(dir), nullptr);
  const std::string top(dir);
  ASSERT_EQ(::mkdir((top + "/d").c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((top + "/d/Sub").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("d", (top + "/link").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", (top + "/dangling").c_str()), 0);
  ASSERT_EQ(::mkfifo((top + "/fifo").c_str(), 0600), 0);
  const RealHost host;
  // More questions than it takes to list the directory, twice.
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(host.kind(top + "/d"), FileKind::kDirectory);
    EXPECT_EQ(host.kind(top + "/link"), FileKind::kLink);
    EXPECT_EQ(host.kind(top + "/dangling"), FileKind::kLink);
    EXPECT_EQ(host.kind(top + "/fifo"), FileKind::kOther);
    EXPECT_EQ(host.kind(top + "/link/Sub"), FileKind::kDirectory);
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(host.kind(top + "/none" + std::to_string(i)), FileKind::kMissing);
      EXPECT_EQ(host.kind(top + "/none/" + std::to_string(i)), FileKind::kMissing);
    }
    EXPECT_EQ(host.kind("/"), FileKind::kDirectory);
    for (const char* name : {"", "/", "/d", "/d/", "/d/Sub", "/d/sub", "/link", "/link/Sub",
                             "/dangling", "/none", "/none/x", "/fifo", "/fifo/x", "/d/../d"}) {
      char* real = ::realpath((top + name).c_str(), nullptr);
      EXPECT_EQ(host.real_path(top + name).value_or("-"), real ? real : "-") << name;
      std::free(real);
    }
    EXPECT_EQ(host.real_path("/"), "/");
    EXPECT_EQ(host.real_path("/.."), "/");
    EXPECT_EQ(host.real_path(""), std::nullopt);
  }
  for (const char* name : {"/link", "/dangling", "/fifo"}) ::unlink((top + name).c_str());
  for (const char* name : {"/d/Sub", "/d", ""}) ::rmdir((top + name).c_str());
}

TEST(MountAliases, BrokenLinesAreLeftOut) {
  EXPECT_TRUE(parse_mountinfo("").empty());
  EXPECT_TRUE(parse_mountinfo("1 2 0:4 net:[12] /run/ns rw\nx\n\n1 2 0:4 /\n").empty());
  EXPECT_EQ(parse_mountinfo("1 2 0:4 / /a\\0").size(), 1u);
}

TEST(GoferConfig, CarriesTheView) {
  FakeHost host;
  View view = compute_view({}, host);
  view.rules.push_back({"/\xff", RuleAction::kDeny, false, ""});  // paths are bytes
  gofer::Config config;
  std::string problem;
  ASSERT_TRUE(gofer::parse_config(encode_gofer_config(view, false), config, problem)) << problem;
  EXPECT_FALSE(config.protect_repositories);
  ASSERT_EQ(config.trees.size(), view.trees.size());
  ASSERT_EQ(config.rules.size(), view.rules.size());
  EXPECT_EQ(config.rules.back().path, "/\xff");
  EXPECT_EQ(config.rules.back().action, gofer::Action::kDeny);
  EXPECT_FALSE(config.rules.back().track);
  for (int i = 0; i < 9000; ++i) view.rules.push_back({"/x", RuleAction::kDeny, true, ""});
  EXPECT_EQ(encode_gofer_config(view, true), "");
}

TEST(Explain, KnowsUtf8) {
  EXPECT_TRUE(is_utf8("a\xc3\xa9\xf0\x9f\x98\x80"));
  for (const char* wrong : {"\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"})
    EXPECT_FALSE(is_utf8(wrong));
}

TEST(Paths, AreCleaned) {
  EXPECT_EQ(absolute_path("a/../b/./c//", "/x", "/h"), "/x/b/c");
  EXPECT_EQ(absolute_path("../../..", "/x", "/h"), "/");
  EXPECT_EQ(absolute_path("~", "/x", "/h"), "/h");
  EXPECT_EQ(absolute_path("~/a", "/x", "/h"), "/h/a");
  EXPECT_EQ(absolute_path("~a", "/x", "/h"), "/x/~a");
  EXPECT_TRUE(is_below("/a/b", "/a"));
  EXPECT_FALSE(is_below("/ab", "/a"));
  EXPECT_TRUE(is_below("/a", "/"));
  EXPECT_FALSE(is_below("/", "/"));
}

}  // namespace
}  // namespace uks::cli
