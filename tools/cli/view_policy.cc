// The default view of the sandbox and what the flags change in it: mounts, generated files,
// identity. What the gofer is told is in view_rules.cc.
#include "tools/cli/view_policy.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/cli/glob.h"
#include "tools/cli/paths.h"
#include "tools/cli/policy_data.h"
#include "tools/cli/view_rules.h"

namespace uks::cli {
namespace {

class Builder {
 public:
  Builder(const ExecOptions& options, const Host& host) : scope_{options, host, {}, {}, {}, {}} {}

  View build() {
    home_ = protected_home(scope_.host);
    if (!home_.empty()) scope_.homes.insert(home_);
    if (has_glob(home_)) view_.errors.push_back("$HOME: names with * or ? are not supported");
    // $HOME may have been changed (sudo -E, tests): the account's own home stays protected too.
    for (const Account& account : scope_.host.accounts) {
      if (account.uid == scope_.host.uid) add_home(account.home);
    }
    if (scope_.host.uid == 0) collect_other_homes();
    set_identity();
    collect_hidden();
    collect_shown();
    drop_hidden_from_shown();
    add_root();
    add_own_directories();
    add_shown_mounts();
    rules_.build();
    sort_mounts();
    add_generated_files();
    if (!rules_.add_aliases()) {
      view_.notices.emplace_back(
          "so much is hidden that not all other names of it are: mounts may show some");
    }
    check_mount_points();
    choose_workdir();
    view_.rules = rules_.take();
    view_.other_homes = rules_.take_other_homes();
    return std::move(view_);
  }

 private:
  void add_home(const std::string& home) {
    const std::string real = scope_.host.real_path(home).value_or("");
    if (real == "/root" || (!real.empty() && !has_glob(real) && !is_system_directory(real)))
      scope_.homes.insert(real);
  }

  // Services have homes and secrets as well. Not those that are everybody's.
  void collect_other_homes() {
    constexpr size_t kMaxHomes = 2048;
    for (const Account& account : scope_.host.accounts) {
      if (account.uid == scope_.host.uid || scope_.other_homes.size() == kMaxHomes) continue;
      std::string real = scope_.host.real_path(account.home).value_or("");
      if (real.empty() || scope_.homes.contains(real) || is_system_directory(real)) continue;
      scope_.other_homes.insert(std::move(real));
    }
  }

  void set_identity() {
    Identity& id = view_.identity;
    id = {scope_.host.uid, scope_.host.gid, scope_.host.groups, false};
    if (scope_.options.user) {
      id.uid = scope_.options.user->uid;
      if (scope_.options.user->gid) {
        id.gid = *scope_.options.user->gid;
      } else if (id.uid != scope_.host.uid) {
        const auto account = std::ranges::find_if(
            scope_.host.accounts, [&](const Account& a) { return a.uid == id.uid; });
        id.gid = account == scope_.host.accounts.end() ? id.uid : account->gid;
      }
      if (id.uid != scope_.host.uid) id.groups.clear();
      id.virtual_root = id.uid == 0 && scope_.host.uid != 0;
    }
    view_.config.uid = id.uid;
    view_.config.gid = id.gid;
  }

  std::string typed(const std::string& path) const {
    return absolute_path(path, scope_.host.cwd.empty() ? "/" : scope_.host.cwd, home_variable());
  }
  std::string home_variable() const {
    const std::string home = scope_.host.variable("HOME");
    return home.starts_with('/') ? home : home_;
  }

  // --hide: both the name as typed and what it leads to. A hidden name has to stay hidden when it
  // is a link, and when the file is reached by its real name.
  void collect_hidden() {
    for (const std::string& path : scope_.options.hide) {
      const std::string name = typed(path);
      if (name == "/") {
        view_.errors.push_back("--hide /: nothing would be left to run");
        continue;
      }
      scope_.hidden.insert(name);
      if (const auto real = scope_.host.real_path(name)) scope_.hidden.insert(*real);
      // The gofer matches real paths: links on the way to a name or pattern that may appear later.
      std::string dir = parent_of(name);
      std::string tail(base_name(name));
      while (has_glob(dir)) {
        tail = join(base_name(dir), tail).substr(1);
        dir = parent_of(dir);
      }
      if (const auto real = scope_.host.real_path(dir)) scope_.hidden.insert(join(*real, tail));
    }
  }

  // Which of them should win is anybody's guess.
  void refuse_contradictions() {
    std::map<std::string, std::string> flags;
    const auto note = [&](const std::vector<std::string>& paths, const std::string& flag) {
      for (const std::string& path : paths) {
        const std::string name = typed(path);
        const std::string real = scope_.host.real_path(name).value_or(name);
        const auto [first, fresh] = flags.try_emplace(real, flag);
        if (!fresh && first->second != flag)
          view_.errors.push_back(first->second + " and " + flag + " name the same place: " + real);
      }
    };
    note(scope_.options.ro, "--ro");
    note(scope_.options.rw, "--rw");
    note(scope_.options.tmpfs, "--tmpfs");
  }

  bool is_tmpfs(const std::string& dir) const {
    return std::ranges::any_of(scope_.options.tmpfs, [&](const std::string& path) {
      const std::string name = typed(path);
      return scope_.host.real_path(name).value_or(name) == dir;
    });
  }

  void collect_shown() {
    refuse_contradictions();
    add_flag_paths(scope_.options.ro, false, "--ro");
    add_flag_paths(scope_.options.rw, true, "--rw");
    if (scope_.host.cwd.empty()) {
      view_.notices.push_back("the current directory is gone: starting in /");
      return;
    }
    if (is_tmpfs(scope_.host.cwd)) return;
    const bool named = std::ranges::any_of(
        scope_.shown, [&](const Shown& s) { return s.source == scope_.host.cwd; });
    if (named) {
      view_.workspace_passes = std::ranges::any_of(
          scope_.shown, [&](const Shown& s) { return s.source == scope_.host.cwd && s.writable; });
      return;
    }
    if (std::ranges::any_of(scope_.shown, [&](const Shown& s) {
          return s.writable && is_below(scope_.host.cwd, s.source);
        })) {
      view_.workspace_passes = true;
      return;
    }
    std::string why = why_no_workspace(scope_.host.cwd, home_, scope_.host);
    const std::string secret = scope_.secret_above(scope_.host.cwd);
    if (why.empty() && !secret.empty())
      why = "lies in " + secret + ", which is on the list of secrets";
    if (why.empty() && has_glob(scope_.host.cwd)) why = "has * or ? in its name";
    if (why.empty() && scope_.hidden.contains(scope_.host.cwd)) why = "is hidden";
    if (!why.empty()) {
      why_no_workspace_ = std::move(why);
      return;
    }
    view_.workspace_passes = true;
    scope_.shown.push_back({scope_.host.cwd, scope_.host.cwd, true, "workspace"});
    note_repository_above();
  }

  // git(1) in a subdirectory of a repository would say "not a git repository", which it is outside.
  void note_repository_above() {
    const auto has_git = [&](const std::string& dir) {
      return scope_.host.kind(join(dir, ".git")) != FileKind::kMissing;
    };
    if (has_git(scope_.host.cwd)) return;
    for (std::string dir = parent_of(scope_.host.cwd); dir != "/"; dir = parent_of(dir)) {
      const bool in_home = std::ranges::any_of(
          scope_.homes, [&](const std::string& home) { return is_at_or_below(dir, home); });
      if ((!in_home && !covered_by_own(dir)) || scope_.shown_above(dir)) return;
      if (!has_git(dir)) continue;
      view_.notices.push_back("the repository " + dir +
                              " is not shown in its subdirectories: start there, or add --ro " +
                              dir);
      return;
    }
  }

  void add_flag_paths(const std::vector<std::string>& paths, bool writable,
                      const std::string& flag) {
    for (const std::string& path : paths) {
      const std::string name = typed(path);
      const auto real = scope_.host.real_path(name);
      if (!real) {
        view_.errors.push_back(flag + " " + path + ": no such file or directory");
        continue;
      }
      // The gofer's rules would take the name for a pattern, and show what else it matches.
      if (has_glob(*real) || has_glob(name)) {
        view_.errors.push_back(flag + " " + path + ": names with * or ? cannot be shown");
        continue;
      }
      if (scope_.host.kind(*real) == FileKind::kOther) {
        view_.errors.push_back(flag + " " + path + ": neither a file nor a directory");
        continue;
      }
      if (is_at_or_below(*real, "/proc") || is_at_or_below(*real, "/sys")) {
        view_.errors.push_back(flag + " " + path + ": the host's /proc and /sys are never shown");
        continue;
      }
      scope_.shown.push_back({*real, *real, writable, flag + " " + path});
      // A name below one of the sandbox's own directories is not there to lead to the real one.
      if (name != *real && covered_by_own(name))
        scope_.shown.push_back({name, *real, writable, flag + " " + path});
    }
  }

  static constexpr std::string_view kOwn[] = {"/tmp", "/dev", "/proc", "/sys", "/run"};
  static bool covered_by_own(const std::string& path) {
    return std::ranges::any_of(kOwn, [&](std::string_view d) { return is_at_or_below(path, d); });
  }

  void add_mount(ViewMount mount, const std::string& reason) {
    view_.mount_reasons[mount.target] = reason;
    view_.config.mounts.push_back(std::move(mount));
  }

  uint32_t tree_for(const std::string& root, bool writable) {
    for (uint32_t i = 0; i < view_.trees.size(); ++i) {
      if (view_.trees[i].root == root && view_.trees[i].writable == writable) return i;
    }
    view_.trees.push_back({root, writable});
    return static_cast<uint32_t>(view_.trees.size() - 1);
  }

  // --hide beats a flag for the same place.
  void drop_hidden_from_shown() {
    std::erase_if(scope_.shown, [&](const Shown& s) {
      return scope_.hidden.contains(s.source) || scope_.hidden.contains(s.target);
    });
    view_.workspace_passes = view_.workspace_passes && !scope_.hidden.contains(scope_.host.cwd);
  }

  void add_root() {
    ViewMount root;
    root.target = "/";
    const bool writable = std::ranges::any_of(
        scope_.shown, [](const Shown& s) { return s.writable && s.source == "/"; });
    root.kind = writable ? MountKind::kGofer : MountKind::kOverlay;
    root.tree = tree_for("/", writable);
    add_mount(std::move(root),
              writable ? "--rw: changes reach the host"
                       : "the host's tree, read-only, beneath an overlay that is discarded");
  }

  void add_own_directories() {
    const auto own = [&](const char* target, MountKind kind, uint32_t mode) {
      ViewMount mount;
      mount.target = target;
      mount.kind = kind;
      mount.mode = mode;
      add_mount(std::move(mount), "the sandbox's own");
    };
    own("/tmp", MountKind::kTmpfs, 01777);
    own("/dev", MountKind::kDev, 0755);
    own("/proc", MountKind::kProc, 0555);
    own("/sys", MountKind::kSys, 0555);
    own("/run", MountKind::kTmpfs, 0755);
    for (const std::string_view path : policy::show_if_present()) {
      const std::string name(path);
      // NixOS's /run/current-system is a link into the store: the same link serves.
      const auto real = scope_.host.real_path(name);
      if (!real) continue;
      ViewMount mount;
      mount.target = name;
      mount.kind = MountKind::kGofer;
      mount.tree = tree_for(*real, false);
      mount.read_only = true;
      add_mount(std::move(mount), "exists on the host");
    }
    add_homes_below_own();
    for (const std::string& path : scope_.options.tmpfs) {
      ViewMount mount;
      mount.target = typed(path);
      mount.kind = MountKind::kTmpfs;
      mount.mode = 0755;
      if (mount.target == "/") {
        view_.errors.push_back("--tmpfs /: nothing would be left to run");
        continue;
      }
      if (const auto real = scope_.host.real_path(mount.target)) mount.target = *real;
      const FileKind kind = scope_.host.kind(mount.target);
      if (kind != FileKind::kDirectory && kind != FileKind::kMissing) {
        view_.errors.push_back("--tmpfs " + path + ": not a directory");
        continue;
      }
      add_mount(std::move(mount), "--tmpfs " + path);
    }
  }

  // A home in /tmp or /run (tests, services) is not part of the root's overlay: it gets one of its
  // own.
  void add_homes_below_own() {
    for (const std::string& home : scope_.homes) {
      if (!covered_by_own(home) || scope_.host.kind(home) != FileKind::kDirectory ||
          scope_.shown_above(home))
        continue;
      ViewMount mount;
      mount.target = home;
      mount.kind = MountKind::kOverlay;
      mount.tree = tree_for(home, false);
      add_mount(std::move(mount), "the home directory, beneath an overlay that is discarded");
    }
  }

  // `--ro ~` opens the home but leaves it the sandbox's own: programs that cannot write their
  // caches and histories at all fail in ways that have nothing to do with what they are asked to
  // do.
  bool opens_home(const Shown& s) const {
    return !s.writable && std::ranges::any_of(scope_.homes, [&](const std::string& h) {
      return is_at_or_below(h, s.source);
    });
  }

  void add_shown_mounts() {
    for (const Shown& s : scope_.shown) {
      if (s.target == "/") continue;  // add_root
      if (opens_home(s) && s.target == s.source && !covered_by_own(s.target)) continue;
      ViewMount mount;
      mount.target = s.target;
      mount.kind = MountKind::kGofer;
      mount.tree = tree_for(s.source, s.writable);
      mount.read_only = !s.writable;
      // The last one wins, as with mount(8): an earlier flag for the same place is replaced.
      std::erase_if(view_.config.mounts, [&](const ViewMount& m) {
        return m.target == mount.target && m.kind == MountKind::kGofer;
      });
      add_mount(std::move(mount), s.reason);
    }
  }

  // The mount that a path lies in; mounts are sorted.
  const ViewMount& mount_of(const std::string& path, bool not_at = false) const {
    const ViewMount* best = &view_.config.mounts.front();
    for (const ViewMount& m : view_.config.mounts) {
      if (not_at ? is_below(path, m.target) : is_at_or_below(path, m.target)) best = &m;
    }
    return *best;
  }

  // The sentry makes missing mount points where that leaves no trace on the host.
  void check_mount_points() {
    for (const ViewMount& m : view_.config.mounts) {
      if (m.target == "/" || mount_of(m.target, true).kind != MountKind::kGofer) continue;
      if (scope_.host.kind(m.target) != FileKind::kMissing) continue;
      view_.errors.push_back("cannot mount on " + m.target + ": no such directory on the host");
    }
  }

  void add_file(const std::string& path, std::string content, uint32_t mode) {
    if (!scope_.hidden.contains(path)) rules_.add(path, RuleAction::kAbsent, "generated");
    // Never through to the host: with --rw /etc there is none of them, and not the host's either.
    if (mount_of(path).kind == MountKind::kGofer || scope_.hidden.contains(path)) return;
    ViewFile file;
    file.path = path;
    file.content = std::move(content);
    file.mode = S_IFREG | mode;
    view_.config.files.push_back(std::move(file));
  }

  void add_generated_files() {
    add_file(
        "/etc/resolv.conf",
        "# Made by uks: the sandbox has no network but its own loopback.\nnameserver 127.0.0.1\n",
        0644);
    // Locked, not empty: an empty field would be an account without a password.
    std::string shadow;
    const std::string passwd = scope_.host.read_text("/etc/passwd", 1 << 20).value_or("");
    for_each_name(passwd,
                  [&](std::string_view name) { (shadow += name) += ":!:19000:0:99999:7:::\n"; });
    std::string gshadow;
    const std::string group = scope_.host.read_text("/etc/group", 1 << 20).value_or("");
    for_each_name(group, [&](std::string_view name) { (gshadow += name) += ":!::\n"; });
    if (scope_.host.kind("/etc/shadow") != FileKind::kMissing)
      add_file("/etc/shadow", std::move(shadow), 0640);
    if (scope_.host.kind("/etc/gshadow") != FileKind::kMissing)
      add_file("/etc/gshadow", std::move(gshadow), 0640);
  }

  template <typename F>
  static void for_each_name(std::string_view text, F&& f) {
    while (!text.empty()) {
      const size_t newline = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, newline);
      text.remove_prefix(std::min(newline + 1, text.size()));
      const size_t colon = line.find(':');
      if (colon != std::string_view::npos && colon > 0 && line[0] != '#') f(line.substr(0, colon));
    }
  }

  // Parents first; of two at the same place the one named later stays on top. What the caller names
  // is mounted after the sandbox's own and so shows through it, but never over a directory below
  // it.
  void sort_mounts() {
    const auto depth = [](const ViewMount& m) { return depth_of(m.target); };
    std::vector<ViewMount> sorted;
    for (ViewMount& mount : view_.config.mounts) {
      const auto place = std::ranges::upper_bound(sorted, depth(mount), {}, depth);
      sorted.insert(place, std::move(mount));
    }
    view_.config.mounts = std::move(sorted);
  }

  // Whether the command finds that directory of the host's, or one of the sandbox's own, there.
  bool is_there(const std::string& dir) const {
    const ViewMount* mount = nullptr;
    for (const ViewMount& m : view_.config.mounts) {  // the deepest last
      if (is_below(m.target, dir) || m.target == dir) return true;
      if (is_at_or_below(dir, m.target)) mount = &m;
    }
    if (!mount) return false;
    switch (mount->kind) {
      case MountKind::kGofer:
      case MountKind::kOverlay:
        // A home that is not shown is there for what is shown of it.
        return rules_.opens(dir) || (scope_.homes.contains(dir) && !scope_.hidden.contains(dir));
      case MountKind::kDev:
        return dir == "/dev/shm" || dir == "/dev/pts";
      default:
        return false;
    }
  }

  // The current directory, or what there is of it; one line says what is not as it seems.
  void choose_workdir() {
    if (scope_.options.workdir) {
      view_.workdir = typed(*scope_.options.workdir);
    } else {
      view_.workdir = scope_.host.cwd.empty() ? "/" : scope_.host.cwd;
      while (view_.workdir != "/" && !is_there(view_.workdir))
        view_.workdir = parent_of(view_.workdir);
    }
    const std::string& cwd = scope_.host.cwd;
    if (!scope_.options.workdir && !cwd.empty() && view_.workdir != cwd) {
      const bool hidden = std::ranges::any_of(
          scope_.hidden, [&](const std::string& h) { return is_at_or_below(cwd, h); });
      view_.notices.push_back(
          "the current directory " +
          (why_no_workspace_.empty() ? "is not there inside" : why_no_workspace_) +
          ": starting in " + view_.workdir + (hidden ? "" : " (--rw . shows it)"));
    } else if (!why_no_workspace_.empty()) {
      view_.notices.push_back("the current directory " + why_no_workspace_ +
                              ": changes in it will be discarded (--rw . passes them through)");
    }
  }

  ViewScope scope_;
  RuleBuilder rules_{scope_};
  std::string home_;
  std::string why_no_workspace_;  // "is hidden"; empty if there is one, or a flag is about it
  View view_;
};

}  // namespace

const char* action_name(RuleAction action) {
  switch (action) {
    case RuleAction::kReadWrite:
      return "rw";
    case RuleAction::kReadOnly:
      return "ro";
    case RuleAction::kAbsent:
      return "absent";
    case RuleAction::kDeny:
      return "deny";
  }
  return "deny";
}

View compute_view(const ExecOptions& options, const Host& host) {
  return Builder(options, host).build();
}

}  // namespace uks::cli
