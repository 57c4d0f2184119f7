#include "gofer/server/repositories.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "gofer/server/git_keys.h"
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

bool is_at_or_below(std::string_view path, std::string_view above) {
  if (above == "/") return true;
  return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
}

// `path` seen from the absolute path `base`, without "." and "..": links count for nothing.
std::string absolute_path(std::string_view base, std::string_view path) {
  std::string joined = path.starts_with('/') ? std::string(path) : std::string(base) + "/" + std::string(path);
  std::vector<std::string_view> parts;
  for (std::string_view rest = joined; !rest.empty();) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, slash);
    rest.remove_prefix(std::min(slash + 1, rest.size()));
    if (part == ".." && !parts.empty()) parts.pop_back();
    if (!part.empty() && part != "." && part != "..") parts.push_back(part);
  }
  std::string out;
  for (const std::string_view part : parts) out.append("/").append(part);
  return out.empty() ? "/" : out;
}

// Whether `path`, seen from `dir`, is a directory of its tree, reached without links.
bool is_below_tree(const Located& dir, std::string_view path) {
  const std::string absolute = absolute_path(dir.tree().root + "/" + dir.path, path);
  if (!is_at_or_below(absolute, dir.tree().root)) return false;
  const auto fd = open_path_beneath(dir.tree().fd.get(), std::string_view(absolute).substr(std::min(absolute.size(), dir.tree().root.size() + 1)));
  const auto attr = fd ? stat_at(fd->get(), "") : Err(ENOENT);
  return attr && attr->is_directory();
}

// As is_git_directory() in git's setup.c, without looking into HEAD: a repository proper, or a worktree's part.
bool looks_like_git_directory(int fd) {
  return exists(fd, "HEAD") && ((exists(fd, "objects") && exists(fd, "refs")) || exists(fd, "commondir"));
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

bool Repositories::is_old_git_directory(int fd, const Attr& attr) {
  return looks_like_git_directory(fd) && !is_made(attr);
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

bool Repositories::is_harmless_path(const std::string& path) {
  for (const Tree& tree : trees_) {
    if (!tree.writable || !is_at_or_below(path, tree.root)) continue;
    // As enter_repo() in git's path.c.
    for (const char* suffix : {"/.git", "", ".git/.git", ".git"}) {
      const std::string below = (path + suffix).substr(std::min(path.size(), tree.root.size() + 1));
      const auto fd = open_path_beneath(tree.fd.get(), below);
      if (!fd && (fd.error() == ENOENT || fd.error() == ENOTDIR)) continue;
      if (!fd) return false;
      const auto attr = stat_at(fd->get(), "");
      if (!attr || !attr->is_directory()) return false;
      if (looks_like_git_directory(fd->get())) return !is_made(*attr);
    }
  }
  return true;
}

bool Repositories::is_harmless_repository(const Located& dir, std::string_view address) {
  switch (kind_of_address(address)) {
    case Address::kNetwork:
      return true;
    case Address::kOther:
      return false;
    case Address::kPath:
      break;
  }
  if (address.starts_with("file://")) address.remove_prefix(7);
  // git goes to the top of the checked-out files first.
  std::string base = dir.tree().root + "/" + dir.path;
  if (last_of(dir.path) == ".git") base = parent_of(base);
  return is_harmless_path(absolute_path(base, address));
}

Result<void> Repositories::may_replace(const Located& dir, const std::string& name, std::string_view before,
                                       std::string_view now) {
  const auto old = parse_git_config(before).value_or(std::vector<ConfigEntry>());
  const auto entries = parse_git_config(now);
  if (!entries) return refuse(dir, name, "git would not read this configuration");
  const auto has_address = [](const std::vector<ConfigEntry>& list, const std::string& remote) {
    return std::ranges::any_of(list, [&](const ConfigEntry& e) {
      return e.section == "remote" && e.subsection == remote && e.key == "url" && e.value && !e.value->empty();
    });
  };
  const std::set<ConfigEntry> known(old.begin(), old.end());
  for (const ConfigEntry& entry : *entries) {
    const std::string value = entry.value.value_or("");
    const Effect effect = effect_of(entry);
    if (effect == Effect::kRemote) {
      // Without an address the name is one; it may have lost it just now.
      if (value == "." || has_address(*entries, value)) continue;
      if (known.contains(entry) && !has_address(old, value)) continue;
      if (is_harmless_repository(dir, value)) continue;
      return refuse(dir, name, fmt::format("{} would make git use a repository of the command's making", printable(entry.text())));
    }
    if (effect == Effect::kHarmless || known.contains(entry)) continue;
    if (effect == Effect::kRepository && is_harmless_repository(dir, value)) continue;
    if (effect == Effect::kRewrite && kind_of_address(entry.subsection.value_or("")) == Address::kNetwork) continue;
    if (effect == Effect::kWorkTree && is_below_tree(dir, value)) continue;
    return refuse(dir, name, fmt::format("{} would or might make git run a command", printable(entry.text())));
  }
  return {};
}

}  // namespace uks::gofer
