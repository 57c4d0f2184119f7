// What git's configuration and its pointers may say: where they lead.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "gofer/server/git_directory.h"
#include "gofer/server/git_keys.h"
#include "gofer/server/host_fs.h"
#include "gofer/server/repositories.h"

namespace uks::gofer {
namespace {

std::string_view parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view last_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) out += c >= ' ' && c < 0x7f ? c : '?';
  return out;
}

std::string absolute(const Located& dir) {
  return (dir.tree().root == "/" ? "" : dir.tree().root) + (dir.path.empty() ? "" : "/" + dir.path);
}

// `path` seen from the absolute path `base`. None: it climbs out of a directory that may be a link
// by then.
std::optional<std::string> absolute_path(std::string_view base, std::string_view path) {
  std::string out = path.starts_with('/') ? "" : std::string(base);
  bool descended = path.starts_with('/');
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (descended) return std::nullopt;
      out = parent_of(out);
      continue;
    }
    descended = true;
    out.append("/").append(part);
  }
  return out.empty() ? "/" : out;
}

// The part of `path` below the tree's root, if it is there.
std::optional<std::string> below_root(const Tree& tree, std::string_view path) {
  if (!is_at_or_below(path, tree.root)) return std::nullopt;
  if (tree.root == "/") return std::string(path.substr(1));
  return std::string(path.substr(std::min(path.size(), tree.root.size() + 1)));
}

}  // namespace

bool Repositories::is_harmless_path(const std::string& path) {
  for (const Tree& tree : trees_) {
    if (!tree.writable || !below_root(tree, path)) continue;
    // As enter_repo() in git's path.c.
    for (const char* suffix : {"/.git", "", ".git/.git", ".git"}) {
      const auto fd =
          open_path_beneath(tree.fd.get(), below_root(tree, path + suffix).value_or(""));
      if (!fd && (fd.error() == ENOENT || fd.error() == ENOTDIR)) continue;
      if (!fd) return false;
      const auto attr = stat_at(fd->get(), "");
      if (!attr || attr->is_symlink()) return false;
      if (attr->is_regular() && *suffix) return false;
      if (attr->is_directory() && looks_like_git_directory(fd->get()))
        return is_old_git_directory(fd->get(), *attr);
    }
    // What comes there later counts as old.
    const auto fd = open_path_beneath(tree.fd.get(), *below_root(tree, path));
    if (fd &&
        !visit_directories(fd->get(), 10'000, [&](const std::string&, int each, const Attr& attr) {
          if (looks_like_git_directory(each)) return false;
          memory_.not_made(attr);
          return true;
        })) {
      return false;
    }
    memory_.lost(path);
    memory_.lost(path + ".git");
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
  // git goes to the top of the checked-out files first, or stays.
  const std::string base = absolute(dir);
  const auto seen_from_git = absolute_path(base, address),
             seen_from_top = absolute_path(parent_of(base), address);
  if (!seen_from_git || !seen_from_top) return false;
  const bool inside = lower_case(last_of(base)) == ".git";
  return is_harmless_path(*seen_from_top) && (inside || is_harmless_path(*seen_from_git));
}

bool Repositories::is_harmless_work_tree(const Located& dir, std::string_view path) {
  const auto there = absolute_path(absolute(dir), path);
  const auto below = there ? below_root(dir.tree(), *there) : std::nullopt;
  if (!below) return false;
  const auto fd = open_path_beneath(dir.tree().fd.get(), *below);
  const auto attr = fd ? stat_at(fd->get(), "") : Err(ENOENT);
  if (!attr || !attr->is_directory()) return false;
  memory_.lost(*there + "/.git");  // no link may come there
  return true;
}

Result<void> Repositories::may_replace(const Name& at, std::string_view before,
                                       std::string_view now) {
  const auto old = parse_git_config(before).value_or(std::vector<ConfigEntry>());
  const auto entries = parse_git_config(now);
  if (!entries) return refuse(at, "git would not read this configuration");
  const auto has_address = [](const std::vector<ConfigEntry>& list, const std::string& remote) {
    return std::ranges::any_of(list, [&](const ConfigEntry& e) {
      return e.section == "remote" && e.subsection == remote && e.key == "url" && e.value &&
             !e.value->empty();
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
      if (is_harmless_repository(at.dir, value)) continue;
      return refuse(at, fmt::format("{} would make git use a repository of the command's making",
                                    quoted(entry.text())));
    }
    if (effect == Effect::kHarmless || known.contains(entry)) continue;
    if (effect == Effect::kRepository && is_harmless_repository(at.dir, value)) continue;
    if (effect == Effect::kRewrite &&
        kind_of_address(entry.subsection.value_or("")) == Address::kNetwork)
      continue;
    if (effect == Effect::kWorkTree && is_harmless_work_tree(at.dir, value)) continue;
    return refuse(at,
                  fmt::format("{} would or might make git run a command", quoted(entry.text())));
  }
  return {};
}

Result<void> Repositories::may_point(const Name& at, std::string_view before,
                                     std::string_view now) {
  if (now.empty() || now == before) return {};
  const Tree& tree = at.dir.tree();
  std::string_view text = now;
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  const auto is_worktree_part = [&](std::string_view path) {
    return last_of(parent_of(path)) == "worktrees" &&
           is_old_git_directory(tree, parent_of(parent_of(path)));
  };
  if (lower_case(at.name) == "commondir") {
    if (text == "../.." && is_worktree_part(at.dir.path)) return {};
    return refuse(at, "it decides what git runs outside the sandbox");
  }
  constexpr std::string_view kPrefix = "gitdir: ";
  if (text.starts_with(kPrefix) && !text.contains('\0')) {
    const auto target = absolute_path(absolute(at.dir), text.substr(kPrefix.size()));
    const auto below = target ? below_root(tree, *target) : std::nullopt;
    const auto fd = below ? open_path_beneath(tree.fd.get(), *below) : Err(ENOENT);
    const auto attr = fd ? stat_at(fd->get(), "") : Err(ENOENT);
    if (attr && attr->is_directory() && !memory_.is_made(*attr)) {
      // A worktree's part may be still to be filled; another repository is complete.
      const bool part = is_worktree_part(*below);
      if (part || (is_old_git_directory(fd->get(), *attr) && !stat_at(fd->get(), "commondir")))
        return {};
    }
  }
  return refuse(at, "it would lead git to another repository");
}

}  // namespace uks::gofer
