// The default view of the sandbox and what the flags change in it. Rules go to the gofer, which has
// no opinion of its own; mounts go to the sentry.
#include "tools/cli/view_policy.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "tools/cli/glob.h"
#include "tools/cli/paths.h"
#include "tools/cli/policy_data.h"

namespace uks::cli {
namespace {

// A path that the command line names, or that the policy derives.
struct Shown {
  std::string target;  // where the command sees it
  std::string source;  // its real path on the host
  bool writable;
  std::string reason;
};

class Builder {
 public:
  Builder(const ExecOptions& options, const Host& host) : options_(options), host_(host) {}

  View build() {
    home_ = protected_home(host_);
    if (!home_.empty()) homes_.insert(home_);
    if (has_glob(home_)) view_.errors.push_back("$HOME: names with * or ? are not supported");
    // $HOME may have been changed (sudo -E, tests): the account's own home stays protected too.
    for (const Account& account : host_.accounts) {
      if (account.uid == host_.uid) add_home(account.home);
    }
    set_identity();
    collect_hidden();
    collect_shown();
    drop_hidden_from_shown();
    add_root();
    add_own_directories();
    add_shown_mounts();
    add_rules();
    sort_mounts();
    add_generated_files();
    check_mount_points();
    choose_workdir();
    finish_rules();
    return std::move(view_);
  }

 private:
  void add_home(const std::string& home) {
    const std::string real = host_.real_path(home).value_or("");
    if (real == "/root" || (!real.empty() && !has_glob(real) && !is_system_directory(real)))
      homes_.insert(real);
  }

  void set_identity() {
    Identity& id = view_.identity;
    id = {host_.uid, host_.gid, host_.groups, false};
    if (options_.user) {
      id.uid = options_.user->uid;
      if (options_.user->gid) {
        id.gid = *options_.user->gid;
      } else if (id.uid != host_.uid) {
        const auto account =
            std::ranges::find_if(host_.accounts, [&](const Account& a) { return a.uid == id.uid; });
        id.gid = account == host_.accounts.end() ? id.uid : account->gid;
      }
      if (id.uid != host_.uid) id.groups.clear();
      id.virtual_root = id.uid == 0 && host_.uid != 0;
    }
    view_.config.uid = id.uid;
    view_.config.gid = id.gid;
  }

  std::string typed(const std::string& path) const {
    return absolute_path(path, host_.cwd.empty() ? "/" : host_.cwd, home_variable());
  }
  std::string home_variable() const {
    const std::string home = host_.variable("HOME");
    return home.starts_with('/') ? home : home_;
  }

  // --hide: both the name as typed and what it leads to. A hidden name has to stay hidden when it
  // is a link, and when the file is reached by its real name.
  void collect_hidden() {
    for (const std::string& path : options_.hide) {
      const std::string name = typed(path);
      if (name == "/") {
        view_.errors.push_back("--hide /: nothing would be left to run");
        continue;
      }
      hidden_.insert(name);
      if (const auto real = host_.real_path(name)) hidden_.insert(*real);
      // The gofer matches real paths: links on the way to a name or pattern that may appear later.
      std::string dir = parent_of(name);
      std::string tail(base_name(name));
      while (has_glob(dir)) {
        tail = join(base_name(dir), tail).substr(1);
        dir = parent_of(dir);
      }
      if (const auto real = host_.real_path(dir)) hidden_.insert(join(*real, tail));
    }
  }

  bool is_hidden(const std::string& path) const {
    return std::ranges::any_of(hidden_,
                               [&](const std::string& h) { return is_at_or_below(path, h); });
  }

  std::string secret_above(const std::string& path) const {
    for (const std::string& home : homes_) {
      for (const policy::List list : {policy::home_secrets(), policy::big_secrets()}) {
        for (const std::string_view secret : list) {
          if (is_at_or_below(path, join(home, secret))) return join(home, secret);
        }
      }
    }
    return {};
  }

  void collect_shown() {
    add_flag_paths(options_.ro, false, "--ro");
    add_flag_paths(options_.rw, true, "--rw");
    if (host_.cwd.empty()) {
      view_.notices.push_back("the current directory is gone: starting in /");
      return;
    }
    const bool named =
        std::ranges::any_of(shown_, [&](const Shown& s) { return s.source == host_.cwd; });
    if (named) {
      view_.workspace_passes = std::ranges::any_of(
          shown_, [&](const Shown& s) { return s.source == host_.cwd && s.writable; });
      return;
    }
    if (std::ranges::any_of(
            shown_, [&](const Shown& s) { return s.writable && is_below(host_.cwd, s.source); })) {
      view_.workspace_passes = true;
      return;
    }
    std::string why = why_no_workspace(host_.cwd, home_, host_);
    const std::string secret = secret_above(host_.cwd);
    if (why.empty() && !secret.empty())
      why = "lies in " + secret + ", which is on the list of secrets";
    if (why.empty() && has_glob(host_.cwd)) why = "has * or ? in its name";
    if (why.empty() && hidden_.contains(host_.cwd)) why = "is hidden";
    if (!why.empty()) {
      view_.notices.push_back("the current directory " + why +
                              ": changes in it will be discarded (--rw . passes them through)");
      return;
    }
    view_.workspace_passes = true;
    shown_.push_back({host_.cwd, host_.cwd, true, "workspace"});
  }

  void add_flag_paths(const std::vector<std::string>& paths, bool writable,
                      const std::string& flag) {
    for (const std::string& path : paths) {
      const std::string name = typed(path);
      const auto real = host_.real_path(name);
      if (!real) {
        view_.errors.push_back(flag + " " + path + ": no such file or directory");
        continue;
      }
      // The gofer's rules would take the name for a pattern, and show what else it matches.
      if (has_glob(*real) || has_glob(name)) {
        view_.errors.push_back(flag + " " + path + ": names with * or ? cannot be shown");
        continue;
      }
      if (host_.kind(*real) == FileKind::kOther) {
        view_.errors.push_back(flag + " " + path + ": neither a file nor a directory");
        continue;
      }
      if (is_at_or_below(*real, "/proc") || is_at_or_below(*real, "/sys")) {
        view_.errors.push_back(flag + " " + path + ": the host's /proc and /sys are never shown");
        continue;
      }
      shown_.push_back({*real, *real, writable, flag + " " + path});
      // A name below one of the sandbox's own directories is not there to lead to the real one.
      if (name != *real && covered_by_own(name))
        shown_.push_back({name, *real, writable, flag + " " + path});
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
    std::erase_if(shown_, [&](const Shown& s) {
      return hidden_.contains(s.source) || hidden_.contains(s.target);
    });
    view_.workspace_passes = view_.workspace_passes && !hidden_.contains(host_.cwd);
  }

  void add_root() {
    ViewMount root;
    root.target = "/";
    const bool writable =
        std::ranges::any_of(shown_, [](const Shown& s) { return s.writable && s.source == "/"; });
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
      const auto real = host_.real_path(name);
      if (!real) continue;
      ViewMount mount;
      mount.target = name;
      mount.kind = MountKind::kGofer;
      mount.tree = tree_for(*real, false);
      mount.read_only = true;
      add_mount(std::move(mount), "exists on the host");
    }
    add_homes_below_own();
    for (const std::string& path : options_.tmpfs) {
      ViewMount mount;
      mount.target = typed(path);
      mount.kind = MountKind::kTmpfs;
      mount.mode = 0755;
      if (mount.target == "/") {
        view_.errors.push_back("--tmpfs /: nothing would be left to run");
        continue;
      }
      if (const auto real = host_.real_path(mount.target)) mount.target = *real;
      add_mount(std::move(mount), "--tmpfs " + path);
    }
  }

  // A home in /tmp or /run (tests, services) is not part of the root's overlay: it gets one of its
  // own.
  void add_homes_below_own() {
    for (const std::string& home : homes_) {
      if (!covered_by_own(home) || host_.kind(home) != FileKind::kDirectory || shown_above(home))
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
    return !s.writable && std::ranges::any_of(homes_, [&](const std::string& h) {
      return is_at_or_below(h, s.source);
    });
  }

  void add_shown_mounts() {
    for (const Shown& s : shown_) {
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

  void add_rule(std::string path, RuleAction action, std::string reason, bool track = true) {
    rules_[path] = {path, action, track, std::move(reason)};
  }

  // True if what the command line names, or the workspace, shows this path.
  const Shown* shown_above(const std::string& path) const {
    const Shown* best = nullptr;
    for (const Shown& s : shown_) {
      if (is_at_or_below(path, s.source) && (!best || s.source.size() > best->source.size()))
        best = &s;
    }
    return best;
  }

  void add_rules() {
    for (const std::string& home : homes_) add_home_rules(home);
    if (host_.uid == 0) add_other_homes();
    for (const std::string_view path : policy::system_secrets()) {
      const std::string name(path);
      add_rule(name, RuleAction::kDeny, "system secret");
      // /etc may be reached through links on some systems; the gofer knows real paths only.
      if (host_.kind(name) == FileKind::kLink) {
        if (const auto real = host_.real_path(name))
          add_rule(*real, RuleAction::kDeny, "system secret");
      }
    }
    // What is shown on request beats what the policy says of its ancestors and of the place itself,
    // not the secrets below it.
    for (const Shown& s : shown_) {
      add_rule(s.source, s.writable ? RuleAction::kReadWrite : RuleAction::kReadOnly, s.reason);
    }
    for (const std::string& path : hidden_) {
      std::erase_if(rules_, [&](const auto& r) { return is_policy_below(r.second, path); });
      add_rule(path, RuleAction::kDeny, "--hide");
    }
  }

  // A rule of the default view that would open something below a hidden path.
  bool is_policy_below(const GoferRule& rule, const std::string& hidden) const {
    if (rule.action != RuleAction::kReadOnly || !is_at_or_below(rule.path, hidden)) return false;
    return std::ranges::none_of(shown_, [&](const Shown& s) { return s.source == rule.path; });
  }

  void add_home_rules(const std::string& home) {
    const Shown* opened = shown_above(home);
    // Not tracked by inode as a whole: homes are big, and the secrets in them are tracked one by
    // one.
    if (!opened) add_rule(home, RuleAction::kAbsent, "the home directory", false);
    std::set<std::string> open;  // paths of this home that show
    if (opened) open.insert(home);
    for (const std::string_view entry : policy::home_allow()) {
      const std::string path = join(home, entry);
      if (!opened) open_home_entry(path, "home allow-list", open);
    }
    if (!opened) {
      for (const std::string& dir : path_entries()) {
        if (is_below(dir, home) && secret_above(dir).empty()) open_home_entry(dir, "PATH", open);
      }
    }
    for (const Shown& s : shown_) {
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

  void add_secret(const std::string& home, const std::string& path, bool home_open,
                  const std::set<std::string>& open, bool track) {
    const bool visible = is_open(path, open);
    const FileKind kind = host_.kind(path);
    if (visible) add_rule(path, RuleAction::kDeny, "secret", track);
    // Where the home is absent anyway, a rule only serves to recognise the file under other names.
    if (!visible && track && kind != FileKind::kMissing)
      add_rule(path, RuleAction::kAbsent, "secret");
    if (kind != FileKind::kLink) return;
    // Dotfile managers keep the file itself elsewhere. A deny rule in an absent place would make
    // the directories on the way to it appear.
    const auto real = host_.real_path(path);
    if (!real || has_glob(*real)) return;
    const bool hidden_anyway = !home_open && is_below(*real, home) && !is_open(*real, open);
    add_rule(*real, hidden_anyway ? RuleAction::kAbsent : RuleAction::kDeny, "secret", track);
  }

  static bool is_open(const std::string& path, const std::set<std::string>& open) {
    return std::ranges::any_of(open, [&](const std::string& o) { return is_at_or_below(path, o); });
  }

  void open_home_entry(const std::string& path, const std::string& reason,
                       std::set<std::string>& open) {
    add_rule(path, RuleAction::kReadOnly, reason);
    open.insert(path);
    if (host_.kind(path) != FileKind::kLink) return;
    // Kept elsewhere in the home by a dotfile manager: the link would dangle. Never a secret, and
    // never so much that it opens the home.
    const auto real = host_.real_path(path);
    if (!real || has_glob(*real) || !secret_above(*real).empty()) return;
    if (std::ranges::any_of(homes_, [&](const std::string& h) { return is_at_or_below(h, *real); }))
      return;
    if (host_.kind(*real) != FileKind::kFile && host_.kind(*real) != FileKind::kDirectory) return;
    if (std::ranges::any_of(homes_, [&](const std::string& h) { return is_below(*real, h); })) {
      add_rule(*real, RuleAction::kReadOnly, reason + ", a link");
      open.insert(*real);
    }
  }

  // Root may read everybody's secrets; an ordinary caller is held back by the host itself.
  void add_other_homes() {
    constexpr size_t kMaxHomes = 64;
    size_t count = 0;
    for (const Account& account : host_.accounts) {
      if (account.uid == host_.uid || account.uid < 1000 || account.uid >= 65534) continue;
      const std::string home = host_.real_path(account.home).value_or("");
      if (home.empty() || home == "/" || homes_.contains(home)) continue;
      if (++count > kMaxHomes) break;
      for (const policy::List list : {policy::home_secrets(), policy::big_secrets()}) {
        for (const std::string_view secret : list) {
          add_rule(join(home, secret), RuleAction::kDeny, "another user's secret", false);
        }
      }
    }
  }

  std::vector<std::string> path_entries() const {
    std::vector<std::string> entries;
    std::string path = host_.variable("PATH");
    for (const std::string& pair : options_.env) {
      if (pair.starts_with("PATH=")) path = pair.substr(5);
    }
    size_t begin = 0;
    while (begin <= path.size() && entries.size() < 256) {
      const size_t colon = std::min(path.find(':', begin), path.size());
      const std::string entry = path.substr(begin, colon - begin);
      begin = colon + 1;
      if (!entry.starts_with('/')) continue;
      const auto real = host_.real_path(entry);
      if (real && !has_glob(*real)) entries.push_back(*real);
    }
    return entries;
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
      if (host_.kind(m.target) != FileKind::kMissing) continue;
      view_.errors.push_back("cannot mount on " + m.target + ": no such directory on the host");
    }
  }

  void add_file(const std::string& path, std::string content, uint32_t mode) {
    if (!hidden_.contains(path)) add_rule(path, RuleAction::kAbsent, "generated");
    // Never through to the host: with --rw /etc there is none of them, and not the host's either.
    if (mount_of(path).kind == MountKind::kGofer || hidden_.contains(path)) return;
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
    const std::string passwd = host_.read_text("/etc/passwd", 1 << 20).value_or("");
    for_each_name(passwd,
                  [&](std::string_view name) { (shadow += name) += ":!:19000:0:99999:7:::\n"; });
    std::string gshadow;
    const std::string group = host_.read_text("/etc/group", 1 << 20).value_or("");
    for_each_name(group, [&](std::string_view name) { (gshadow += name) += ":!::\n"; });
    if (host_.kind("/etc/shadow") != FileKind::kMissing)
      add_file("/etc/shadow", std::move(shadow), 0640);
    if (host_.kind("/etc/gshadow") != FileKind::kMissing)
      add_file("/etc/gshadow", std::move(gshadow), 0640);
    for (const char* path :
         {"/proc/cpuinfo", "/proc/meminfo", "/proc/version", "/sys/devices/system/cpu/online"}) {
      if (auto text = host_.read_text(path, 1 << 20))
        view_.config.host_texts[path] = std::move(*text);
    }
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

  void choose_workdir() {
    std::string dir = host_.cwd.empty() ? "/" : host_.cwd;
    if (options_.workdir) dir = typed(*options_.workdir);
    // The sandbox's own directories do not have the host's below them.
    const bool in_home =
        std::ranges::any_of(homes_, [&](const std::string& h) { return is_at_or_below(dir, h); });
    if (!options_.workdir && covered_by_own(dir) && !shown_above(dir) && !in_home) {
      std::string_view top = dir;
      dir = std::string(top.substr(0, top.find('/', 1)));
    }
    if (!options_.workdir) {
      for (const std::string& home : homes_) {
        if (is_below(dir, home) && !shown_above(dir) && !opened_by_rule(dir)) dir = home;
      }
    }
    view_.workdir = dir;
  }

  bool opened_by_rule(const std::string& path) const {
    const GoferRule* best = nullptr;
    for (const auto& [name, rule] : rules_) {
      if (is_at_or_below(path, name) && (!best || name.size() > best->path.size())) best = &rule;
    }
    return !best || best->action == RuleAction::kReadOnly || best->action == RuleAction::kReadWrite;
  }

  void finish_rules() {
    for (auto& [path, rule] : rules_) view_.rules.push_back(std::move(rule));
  }

  const ExecOptions& options_;
  const Host& host_;
  std::string home_;
  std::set<std::string> homes_;
  std::set<std::string> hidden_;
  std::vector<Shown> shown_;
  std::map<std::string, GoferRule> rules_;
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
