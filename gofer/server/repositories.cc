#include "gofer/server/repositories.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "gofer/server/directory.h"
#include "gofer/server/git_directory.h"
#include "gofer/server/host_fs.h"

namespace uks::gofer {
namespace {

using Change = Repositories::Change;
using Place = RepositoryMemory::Place;

// Directories and names looked through when a directory moves; more counts as holding a repository.
constexpr size_t kMaxScan = 200'000;

std::string_view parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view last_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_taking_away(Change change) {
  return change == Change::kRemove || change == Change::kRemoveDirectory || change == Change::kMove;
}
bool is_mode(Change change) { return change == Change::kMode || change == Change::kMakeExecutable; }

// The names that make a git directory one.
const char* mark_of_git_directory(std::string_view lower) {
  return lower == "head"        ? "HEAD"
         : lower == "objects"   ? "objects"
         : lower == "refs"      ? "refs"
         : lower == "commondir" ? "commondir"
                                : nullptr;
}

bool is_configuration_name(std::string_view lower) {
  return lower == "config" || lower == "config.worktree";
}
bool is_temporary_name(std::string_view lower) { return lower.starts_with("config.uks-"); }
bool is_address_list(std::string_view lower) { return lower == "remotes" || lower == "branches"; }
bool is_sample(std::string_view lower) { return lower.ends_with(".sample"); }

// A link to a neighbour stays where names are looked at.
bool is_neighbour(std::string_view target) {
  return !target.contains('/') && target != "." && target != "..";
}

// For a terminal: nothing that it would act on.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) out += c >= ' ' && c < 0x7f ? c : '?';
  return out;
}

}  // namespace

bool Repositories::concerns(std::string_view path) {
  const std::string lower = lower_case(path);
  const std::string_view name = last_of(lower);
  return name == ".git" || name == "commondir" || is_configuration_name(name) ||
         is_temporary_name(name) || lower.contains("hooks/") ||
         is_address_list(last_of(parent_of(lower)));
}

bool Repositories::is_decisive(std::string_view name) {
  const std::string lower = lower_case(name);
  return lower == ".git" || lower == "hooks" || is_configuration_name(lower) ||
         mark_of_git_directory(lower);
}

std::string Repositories::path_of(const Name& at) {
  std::string path = at.dir.tree().root == "/" ? "" : at.dir.tree().root;
  if (!at.dir.path.empty()) path += "/" + at.dir.path;
  return path + "/" + at.name;
}

bool Repositories::is_old_git_directory(int fd, const Attr& attr) {
  // In this order: what is taken away is remembered before it goes.
  return (looks_like_git_directory(fd) && !memory_.is_made(attr)) ||
         memory_.was_git_directory_before(attr);
}

bool Repositories::is_old_git_directory(const Tree& tree, std::string_view path) {
  const auto fd = open_path_beneath(tree.fd.get(), path);
  if (!fd) return false;
  const auto attr = stat_at(fd->get(), "");
  return attr && attr->is_directory() && is_old_git_directory(fd->get(), *attr);
}

bool Repositories::is_in_git_directory(const Tree& tree, std::string_view path) {
  for (;; path = parent_of(path)) {
    if (is_old_git_directory(tree, path)) return true;
    if (path.empty()) return false;
  }
}

bool Repositories::is_guarded(const Name& at, Place place) {
  if (RepositoryMemory::is_inside(place)) return true;
  return !memory_.is_made(at.dir_attr) && is_in_git_directory(at.dir.tree(), at.dir.path);
}

bool Repositories::is_in_hooks(const Tree& tree, std::string_view path) {
  for (; !path.empty(); path = parent_of(path)) {
    if (lower_case(last_of(path)) == "hooks" && is_old_git_directory(tree, parent_of(path)))
      return true;
  }
  return false;
}

Result<void> Repositories::refuse(const Name& at, std::string_view why) {
  if (lines_left_.fetch_sub(1) <= 0) {
    lines_left_ = 0;
    return Err(EACCES);
  }
  const std::string line = fmt::format("uks: refused to change {}: {} (--unprotect allows it)\n",
                                       printable(path_of(at)), why);
  (void)!::write(2, line.data(), line.size());
  return Err(EACCES);
}

void Repositories::made(const Name& at, const Attr& attr) {
  if (!protect_) return;
  memory_.removed(attr);  // another inode's number
  if (!is_guarded(at, memory_.place(path_of(at)))) memory_.made(attr);
}

Result<void> Repositories::check_hooks(const Name& at, Change change) {
  const std::string name = lower_case(at.name);
  if (change == Change::kRemove || change == Change::kRemoveDirectory || change == Change::kMode)
    return {};
  const bool direct = lower_case(last_of(at.dir.path)) == "hooks";
  // git never runs these.
  if (direct && is_sample(name) && change != Change::kMakeLink && change != Change::kPutDirectory)
    return {};
  return refuse(at, "hooks of a repository run outside the sandbox");
}

Result<void> Repositories::check_dot_git(const Name& at, Change change, Place place) {
  const auto old = stat_at(at.dir_fd, at.name.c_str());
  switch (change) {
    case Change::kRemove:
      if (old) memory_.lost(path_of(at));
      return {};
    case Change::kRemoveDirectory:
      // Only an empty one can be removed. (git tries to in rebase.)
      if (old && !memory_.is_made(*old)) memory_.lost(path_of(at));
      return {};
    case Change::kMove: {
      if (!old || memory_.is_made(*old)) return {};
      if (old->is_directory() &&
          is_old_git_directory(at.dir.tree(),
                               at.dir.path.empty() ? at.name : at.dir.path + "/" + at.name)) {
        return refuse(at, "a repository that was there before stays where it is");
      }
      memory_.lost(path_of(at));
      return {};
    }
    case Change::kPutFile:
      if (!old && !RepositoryMemory::is_inside(place)) return {};
      return refuse(at, "it decides what git runs outside the sandbox");
    default:
      return {};  // pointers are checked when they are written; directories by where they are
  }
}

Result<void> Repositories::check(const Name& at, Change change, std::string_view target) {
  if (!protect_ || at.dir.detached) return {};
  const std::string name = lower_case(at.name);
  const Place place = memory_.place(path_of(at));
  const bool made = memory_.is_made(at.dir_attr);
  if (made && place == Place::kElsewhere) return {};

  if (change == Change::kMakeLink) {
    if (place == Place::kAbove || place == Place::kAt)
      return refuse(at, "a repository was there before");
    if (!is_neighbour(target) && is_guarded(at, place))
      return refuse(at, "it would lead git elsewhere");
  }
  if (made) return {};
  if (name == ".git") return check_dot_git(at, change, place);
  if (lower_case(at.dir.path).contains("hooks") && is_in_hooks(at.dir.tree(), at.dir.path))
    return check_hooks(at, change);
  if (is_address_list(lower_case(last_of(at.dir.path))) && !is_taking_away(change) &&
      !is_mode(change) && is_old_git_directory(at.dir.tree(), parent_of(at.dir.path))) {
    return refuse(at, "it would be an address for git");
  }
  if (change == Change::kRemoveDirectory) {
    const auto old = stat_at(at.dir_fd, at.name.c_str());
    if (old && memory_.was_git_directory_before(*old)) memory_.lost(path_of(at));
  }

  const char* mark = mark_of_git_directory(name);
  if (!mark && name != "hooks" && !is_configuration_name(name) && !is_temporary_name(name) &&
      !is_address_list(name))
    return {};
  const bool git = is_old_git_directory(at.dir_fd, at.dir_attr);
  if (mark) {
    if (is_taking_away(change)) {
      if (git) memory_.was_git_directory(at.dir_attr);
      return {};
    }
    if (is_mode(change)) return {};
    const bool moved_here = change == Change::kPutFile || change == Change::kMakeLink;
    if (name == "commondir" &&
        ((git && change != Change::kWrite) || (moved_here && is_guarded(at, place)))) {
      return refuse(at, "it decides what git runs outside the sandbox");
    }
    if (!git && change != Change::kWrite && completes_git_directory(at.dir_fd, mark))
      return check_new_git_directory(at);
    return {};
  }
  if (!git) {
    // A writer may outlast what comes later.
    if (is_configuration_name(name) && change == Change::kWrite) {
      if (const auto file = stat_at(at.dir_fd, at.name.c_str())) memory_.not_clean(*file);
    }
    return {};
  }
  if (is_mode(change)) return {};
  if (name == "hooks" || is_address_list(name)) {
    if (change == Change::kMakeDirectory || change == Change::kRemoveDirectory) return {};
    return refuse(at, "it decides what git runs outside the sandbox");
  }
  // Taking configuration away is harmless: nothing but a checked file can come in its place.
  if (is_taking_away(change) && !(is_temporary_name(name) && change == Change::kMove)) return {};
  return refuse(
      at, "git's configuration can run commands; it is changed by renaming a new file over it");
}

Result<void> Repositories::check_new_git_directory(const Name& at) {
  for (const char* file : {"config", "config.worktree", "commondir"}) {
    const auto text = read_small_file(at.dir_fd, file, kMaxConfiguration);
    if (!text && text.error() == ENOENT) continue;
    const std::string name = file;
    const Name there{at.dir, at.dir_fd, at.dir_attr, name};
    if (!text) return refuse(there, "it is no usual configuration of a repository");
    TRY(name == "commondir" ? may_point(there, "", *text) : may_replace(there, "", *text));
    const Attr attr = TRY(stat_at(at.dir_fd, file));
    if (memory_.is_clean(attr) && attr.nlink == 1) continue;
    TRY(put_file(at.dir_fd, file, temporary_name(name).c_str(), *text, attr, give_away_));
  }
  for (const char* directory : {"hooks", "remotes", "branches"}) {
    const std::string name = directory;
    const Name there{at.dir, at.dir_fd, at.dir_attr, name};
    const auto fd = open_beneath(at.dir_fd, directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!fd && fd.error() == ENOENT) continue;
    const auto names = fd ? list_names(fd->get(), kMaxScan) : Err(ENOTDIR);
    if (!names || !std::ranges::all_of(*names, [&](const std::string& each) {
          return name == "hooks" && is_sample(lower_case(each));
        })) {
      return refuse(there,
                    "a repository that comes where the command did not make the directory may not "
                    "run commands");
    }
  }
  return {};
}

void Repositories::leaves(const Name& at, const Attr& directory) {
  if (!protect_ || memory_.is_made(directory)) return;
  const std::string path = path_of(at);
  const auto fd = open_beneath(at.dir_fd, at.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const bool all =
      fd && visit_directories(
                fd->get(), kMaxScan, [&](const std::string& below, int each, const Attr& attr) {
                  const std::string here = below.empty() ? path : path + "/" + below;
                  const bool dot_git =
                      lower_case(last_of(here)) == ".git" && !memory_.is_made(attr);
                  if (dot_git || (attr.is_directory() && is_old_git_directory(each, attr)))
                    memory_.lost(here);
                  return true;
                });
  if (!all) memory_.lost(path);
}

Result<void> Repositories::arrives(const Name& at, const Name& from) {
  if (!protect_ || at.dir.detached) return {};
  const Place place = memory_.place(path_of(at));
  if (place == Place::kElsewhere && !is_guarded(at, place)) return {};
  std::vector<Attr> directories;
  const auto fd = open_beneath(from.dir_fd, from.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const bool plain =
      fd && visit_directories(
                fd->get(), kMaxScan, [&](const std::string& below, int each, const Attr& attr) {
                  directories.push_back(attr);
                  return lower_case(last_of(below)) != ".git" && !looks_like_git_directory(each);
                });
  // Programs copy then, and the copies are checked one by one.
  if (!plain) return Err(EXDEV);
  for (const Attr& each : directories) memory_.not_made(each);
  return {};
}

bool Repositories::is_pointer(const Name& at) {
  if (!protect_ || at.dir.detached) return false;
  const std::string name = lower_case(at.name);
  if (name != ".git" && name != "commondir") return false;
  const bool made = memory_.is_made(at.dir_attr);
  if (name == "commondir") return !made;
  if (RepositoryMemory::is_inside(memory_.place(path_of(at)))) return true;
  return !made && stat_at(at.dir_fd, at.name.c_str());
}

Repositories::Configuration Repositories::configuration(const Name& at) {
  if (!protect_ || at.dir.detached || !is_configuration_name(lower_case(at.name)))
    return Configuration::kNone;
  if (memory_.is_made(at.dir_attr)) return Configuration::kNone;
  if (is_old_git_directory(at.dir_fd, at.dir_attr)) return Configuration::kCurrent;
  return is_guarded(at, memory_.place(path_of(at))) ? Configuration::kFuture : Configuration::kNone;
}

std::string Repositories::temporary_name(std::string_view name) {
  return fmt::format("config.uks-{}-{}", ::getpid(), name);
}

}  // namespace uks::gofer
