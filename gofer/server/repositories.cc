#include "gofer/server/repositories.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "gofer/server/git_config.h"
#include "gofer/server/host_fs.h"

namespace uks::gofer {
namespace {

bool exists(int dir, const char* name) { return stat_at(dir, name).has_value(); }

std::string_view parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view last_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// For a terminal: nothing that it would act on.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) out += c >= ' ' && c < 0x7f ? c : '?';
  return out;
}

}  // namespace

bool Repositories::concerns(std::string_view path) {
  const std::string_view name = last_of(path);
  for (const char* each : {"config", "config.worktree", "hooks", "commondir", "gitdir", ".git"}) {
    if (name == each) return true;
  }
  return path.contains("hooks/");
}

void Repositories::made(const Attr& directory) {
  if (!protect_) return;
  const std::lock_guard lock(mutex_);
  if (made_.size() < kMaxMade) made_.insert({directory.dev, directory.ino});
}

bool Repositories::is_made(const Attr& directory) {
  const std::lock_guard lock(mutex_);
  return made_.contains({directory.dev, directory.ino});
}

// As is_git_directory() in git's setup.c, without looking into HEAD: a repository proper, or a worktree's part.
bool Repositories::is_old_git_directory(int fd, const Attr& attr) {
  if (!exists(fd, "HEAD") || !((exists(fd, "objects") && exists(fd, "refs")) || exists(fd, "commondir"))) return false;
  return !is_made(attr);
}

bool Repositories::is_old_git_directory(const Tree& tree, std::string_view path) {
  const auto fd = open_path_beneath(tree.fd.get(), path);
  if (!fd) return false;
  const auto attr = stat_at(fd->get(), "");
  return attr && attr->is_directory() && is_old_git_directory(fd->get(), *attr);
}

bool Repositories::is_in_hooks(const Tree& tree, std::string_view path) {
  for (; !path.empty(); path = parent_of(path)) {
    if (last_of(path) == "hooks" && is_old_git_directory(tree, parent_of(path))) return true;
  }
  return false;
}

Result<void> Repositories::refuse(const Located& dir, std::string_view name, std::string_view why) {
  {
    const std::lock_guard lock(mutex_);
    if (lines_left_ == 0) return Err(EACCES);
    lines_left_--;
  }
  const std::string line = fmt::format("uks: refused to change {}/{}{}{}: {} (--unprotect allows it)\n",
                                       printable(dir.tree().root), printable(dir.path), dir.path.empty() ? "" : "/",
                                       printable(name), why);
  (void)!::write(2, line.data(), line.size());
  return Err(EACCES);
}

Result<void> Repositories::check(const Located& dir, int dir_fd, const Attr& dir_attr, const std::string& name,
                                 Change change) {
  if (!protect_ || dir.detached) return {};
  if (name == ".git") {
    const auto old = stat_at(dir_fd, ".git");
    if (old && old->is_directory()) {
      // Only an empty one can be removed. (git tries to in rebase.)
      if (change == Change::kRemove) return {};
      if (is_old_git_directory(dir.tree(), dir.path.empty() ? name : dir.path + "/" + name))
        return refuse(dir, name, "a repository that was there before stays where it is");
      return {};
    }
    const std::lock_guard lock(mutex_);
    if (made_.contains({dir_attr.dev, dir_attr.ino})) return {};
    if (old && change != Change::kMake) {
      lost_.insert({dir_attr.dev, dir_attr.ino});
      return {};
    }
    if (!old && !lost_.contains({dir_attr.dev, dir_attr.ino})) return {};
  } else if (is_in_hooks(dir.tree(), dir.path)) {
    return refuse(dir, name, "hooks of a repository run outside the sandbox");
  } else if (name == "hooks" || name == "commondir" || name == "gitdir") {
    if (!is_old_git_directory(dir_fd, dir_attr)) return {};
    if (name != "hooks") {
      // git worktree remove takes these away; then HEAD is soon gone too.
      if (change != Change::kMake) return {};
    }
  } else if (name == "config" || name == "config.worktree") {
    // Taking it away is harmless: nothing but a checked file can come in its place.
    if (change != Change::kMake || !is_old_git_directory(dir_fd, dir_attr)) return {};
    return refuse(dir, name, "git's configuration can run commands; it is changed by renaming a new file over it");
  } else {
    return {};
  }
  return refuse(dir, name, "it decides what git runs outside the sandbox");
}

bool Repositories::is_configuration(const Located& dir, int dir_fd, const Attr& dir_attr, const std::string& name) {
  if (!protect_ || dir.detached || (name != "config" && name != "config.worktree")) return false;
  return is_old_git_directory(dir_fd, dir_attr);
}

Result<void> Repositories::may_replace(const Located& dir, const std::string& name, std::string_view before,
                                       std::string_view now) {
  const std::set<std::string> old = commands_in_git_config(before);
  for (const std::string& entry : commands_in_git_config(now)) {
    if (old.contains(entry)) continue;
    return refuse(dir, name, fmt::format("{} would make git run a command", printable(entry)));
  }
  return {};
}

}  // namespace uks::gofer
