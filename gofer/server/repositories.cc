#include "gofer/server/repositories.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "gofer/server/git_directory.h"
#include "gofer/server/host_fs.h"

namespace uks::gofer {
namespace {

using Change = Repositories::Change;

constexpr const char* kDecides = "it decides what git runs outside the sandbox";
constexpr const char* kLeads = "it would lead git elsewhere";

bool is_taking_away(Change change) {
  return change == Change::kRemove || change == Change::kRemoveDirectory || change == Change::kMove;
}
bool is_mode(Change change) { return change == Change::kMode || change == Change::kMakeExecutable; }

bool is_configuration_name(std::string_view lower) {
  return lower == "config" || lower == "config.worktree";
}
bool is_temporary_name(std::string_view lower) { return lower.starts_with(".uks-config-"); }
bool is_address_list(std::string_view lower) { return lower == "remotes" || lower == "branches"; }
bool is_sample(std::string_view name) { return lower_case(name).ends_with(".sample"); }

std::string path_in_tree(const Located& dir, std::string_view name) {
  return dir.path.empty() ? std::string(name) : fmt::format("{}/{}", dir.path, name);
}

// `git init` makes one to see whether links can be made.
bool is_probe(std::string_view name, std::string_view target) {
  return target == "testing" && name.size() == 7 && name[0] == 't';
}

// Through such a link git would check out files into a git directory. (Those of git-annex lead to
// data.)
bool leads_into_git_directory(std::string_view target) {
  const std::string lower = lower_case(target) + "/";
  for (size_t at = lower.find(".git/"); at != std::string::npos; at = lower.find(".git/", at + 1)) {
    if (at > 0 && lower[at - 1] != '/') continue;
    const std::string_view rest = std::string_view(lower).substr(at + 5);
    if (!rest.starts_with("annex/") || rest.contains("..")) return true;
  }
  return false;
}

}  // namespace

std::string Repositories::path_of(const Name& at) {
  const std::string& root = at.dir.tree().root;
  return fmt::format("{}/{}", root == "/" ? "" : root, path_in_tree(at.dir, at.name));
}

bool Repositories::concerns(const Located& file) const {
  if (!protect_ || file.detached) return false;
  const std::string lower = lower_case(file.path);
  const std::string_view name = last_name(lower);
  return file.tree().in_hooks || name == ".git" || name == "commondir" ||
         is_configuration_name(name) || is_temporary_name(name) || lower.contains("hooks/") ||
         is_address_list(last_name(parent_path(lower))) || !included_.empty() || any_noticed_;
}

bool Repositories::is_linked(const Attr& file) const {
  return file.nlink > 1 && linked_.contains({file.dev, file.ino});
}

bool Repositories::is_decisive(std::string_view name) {
  const std::string lower = lower_case(name);
  return lower == ".git" || lower == "hooks" || is_configuration_name(lower) ||
         mark_of_git_directory(lower);
}

bool Repositories::is_git_directory(const Tree& tree, std::string_view path) const {
  const auto fd = open_path_beneath(tree.fd.get(), path);
  if (!fd) return false;
  if (lower_case(last_name(path)) == ".git") {
    const auto attr = stat_at(fd->get(), "");
    return attr && attr->is_directory();
  }
  return looks_like_git_directory(fd->get());
}

bool Repositories::is_in_git_directory(const Tree& tree, std::string_view path,
                                       std::string_view name) const {
  for (std::string_view below = name;; below = last_name(path), path = parent_path(path)) {
    // In a bare repository there may be worktrees, and other directories that git knows nothing of.
    if (is_git_directory(tree, path) && (below.empty() || lower_case(last_name(path)) == ".git" ||
                                         is_git_subdirectory(lower_case(below)))) {
      return true;
    }
    if (path.empty()) return false;
  }
}

bool Repositories::is_in_hooks(const Tree& tree, std::string_view path) const {
  if (tree.in_hooks) return true;
  for (; !path.empty(); path = parent_path(path)) {
    if (lower_case(last_name(path)) == "hooks" && is_git_directory(tree, parent_path(path)))
      return true;
  }
  return false;
}

Result<void> Repositories::refuse(const Name& at, std::string_view why) {
  if (lines_left_.fetch_sub(1) <= 0) {
    lines_left_ = 0;
    return Err(EACCES);
  }
  const std::string line =
      fmt::format("uks: refused to change {}: {} (do it outside, or with --unprotect)\n",
                  printable(path_of(at)), why);
  (void)!::write(2, line.data(), line.size());
  return Err(EACCES);
}

Result<void> Repositories::check_hooks(const Name& at, Change change) {
  if (change == Change::kRemove || change == Change::kRemoveDirectory || change == Change::kMode)
    return {};
  const std::string_view dir = at.dir.path.empty() ? at.dir.tree().root : at.dir.path;
  const bool direct = lower_case(last_name(dir)) == "hooks";
  // git never runs these.
  if (direct && is_sample(at.name) && change != Change::kMakeLink &&
      change != Change::kPutDirectory) {
    return {};
  }
  return refuse(at, "hooks of a repository run outside the sandbox");
}

Result<void> Repositories::check_link(const Name& at, std::string_view target) {
  if (is_probe(at.name, target)) return {};
  if (lower_case(at.name) == ".git" || leads_into_git_directory(target) ||
      is_in_git_directory(at.dir.tree(), at.dir.path)) {
    return refuse(at, kLeads);
  }
  return {};
}

Result<void> Repositories::check(const Name& at, Change change, std::string_view target) {
  if (!protect_ || at.dir.detached) return {};
  const Tree& tree = at.dir.tree();
  const std::string name = lower_case(at.name);
  TRY(check_watched(at, change));
  if (change == Change::kMakeLink) TRY(check_link(at, target));
  if (name == ".git") return change == Change::kPutFile ? refuse(at, kDecides) : Result<void>();
  if ((tree.in_hooks || lower_case(at.dir.path).contains("hooks")) &&
      is_in_hooks(tree, at.dir.path))
    return check_hooks(at, change);
  if (is_address_list(lower_case(last_name(at.dir.path))) && !is_taking_away(change) &&
      !is_mode(change) && is_git_directory(tree, parent_path(at.dir.path))) {
    return refuse(at, "it would be an address for git");
  }

  // Another gofer's, in a directory that may not be a git directory yet.
  if (is_temporary_name(name))
    return is_taking_away(change) && change != Change::kMove ? Result<void>()
                                                             : refuse(at, kDecides);

  const char* mark = mark_of_git_directory(name);
  const bool part = name == "hooks" || is_address_list(name);
  if ((!mark && !part && !is_configuration_name(name)) || is_mode(change)) return {};
  const bool git = is_git_directory(tree, at.dir.path);
  if (mark) {
    if (is_taking_away(change) || change == Change::kWrite) return {};
    const bool completes =
        !looks_like_git_directory(at.dir_fd) && completes_git_directory(at.dir_fd, mark);
    // git makes it in a worktree's part, and writes it there.
    const bool usual =
        change == Change::kMakeFile && last_name(parent_path(at.dir.path)) == "worktrees";
    if (name == "commondir" && (git || completes) && !usual) return refuse(at, kDecides);
    if (!completes) return {};
    if (change == Change::kMakeLink) return refuse(at, kLeads);
    // What lies in it would have to be checked as well.
    if (change == Change::kPutDirectory) return Err(EXDEV);
    return check_contents(at.dir, at.dir_fd, false);
  }
  if (!git) return {};
  if (part) {
    if (change == Change::kMakeDirectory || change == Change::kRemoveDirectory) return {};
    return refuse(at, kDecides);
  }
  // Taking configuration away is harmless: nothing but a checked file can come in its place.
  if (is_taking_away(change) || change == Change::kMakeFile || change == Change::kWrite) return {};
  return refuse(at, "git's configuration can run commands");
}

Result<void> Repositories::check_contents(const Located& dir, int fd, bool moving) {
  std::string name;
  const Name there{dir, fd, name};
  for (const char* file : {"config", "config.worktree", "commondir"}) {
    name = file;
    const auto text = read_small_file(fd, file, kMaxText);
    if (!text && text.error() == ENOENT) continue;
    if (!text) return refuse(there, "it is no usual configuration of a repository");
    if (name != "commondir") {
      TRY(may_configure(there, "", *text, moving));
    } else if (moving) {
      return refuse(there, "a worktree's part stays where it is");
    } else {
      TRY(may_point(there, "", *text));
    }
    // The guest may hold a descriptor that writes to the original.
    if (!moving) {
      TRY(put_file(fd, file, temporary_name(file).c_str(), *text, TRY(stat_at(fd, file)),
                   give_away_));
    }
  }
  name = "hooks";
  if (!has_only(fd, "hooks", is_sample))
    return refuse(there, "hooks of a repository run outside the sandbox");
  for (const char* list : {"remotes", "branches", "modules"}) {
    name = list;
    if (!moving && name == "modules") continue;  // each is checked by itself
    if (!has_only(fd, list, [](std::string_view) { return false; })) {
      return refuse(there, name == "modules" ? "submodules' repositories stay where they are"
                                             : "it would be an address for git");
    }
  }
  name.clear();
  if (!moving && has_link(fd)) return refuse(there, "a link in it would lead git elsewhere");
  return {};
}

Result<void> Repositories::may_move(const Name& from, const Name& to) {
  if (!protect_ || from.dir.detached || to.dir.detached) return {};
  const auto is_guarded = [&](const Name& at) {
    return lower_case(at.name) == ".git" ||
           is_in_git_directory(at.dir.tree(), at.dir.path, at.name);
  };
  if (!is_guarded(from) && !is_guarded(to)) return {};
  Located directory = from.dir;
  directory.path = path_in_tree(from.dir, from.name);
  // Programs copy then, and the copies are checked one by one.
  if (!is_git_directory(directory.tree(), directory.path)) return Err(EXDEV);
  const UniqueFd fd = TRY(open_path_beneath(directory.tree().fd.get(), directory.path));
  return check_contents(directory, fd.get(), true);
}

bool Repositories::is_configuration(const Name& at) const {
  return protect_ && !at.dir.detached && is_configuration_name(lower_case(at.name)) &&
         is_git_directory(at.dir.tree(), at.dir.path);
}

bool Repositories::is_indirect(const Name& at) const {
  if (!protect_ || at.dir.detached) return false;
  const std::string name = lower_case(at.name);
  if (name == ".git") return true;
  if (name == "commondir") return is_git_directory(at.dir.tree(), at.dir.path);
  return is_configuration(at);
}

Result<void> Repositories::may_truncate(const Name& at, uint64_t size) {
  if (size == 0 || !is_configuration(at)) return {};
  return refuse(
      at, "git's configuration can run commands; it is changed by renaming a new file over it");
}

std::string Repositories::temporary_name(std::string_view name) {
  return fmt::format(".uks-config-{}-{}", ::getpid(), name);
}

}  // namespace uks::gofer
