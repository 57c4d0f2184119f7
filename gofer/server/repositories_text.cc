// What git's configuration and its pointers may say: where they lead.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "gofer/server/git_config.h"
#include "gofer/server/git_directory.h"
#include "gofer/server/git_keys.h"
#include "gofer/server/host_fs.h"
#include "gofer/server/repositories.h"

namespace uks::gofer {
namespace {

constexpr std::string_view kPointer = "gitdir: ";

std::string absolute(const Located& dir) {
  return (dir.tree().root == "/" ? "" : dir.tree().root) + (dir.path.empty() ? "" : "/" + dir.path);
}

std::string_view without_newline(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<std::string> resolve_path(std::string_view base, std::string_view path) {
  std::string out = path.starts_with('/') ? "" : std::string(base);
  bool descended = path.starts_with('/');
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (descended) return std::nullopt;
      out = parent_path(out);
      continue;
    }
    descended = true;
    out.append("/").append(part);
  }
  return out.empty() ? "/" : out;
}

std::optional<std::string> below_root(const Tree& tree, std::string_view path) {
  if (!is_at_or_below(path, tree.root)) return std::nullopt;
  if (tree.root == "/") return std::string(path.substr(1));
  return std::string(path.substr(std::min(path.size(), tree.root.size() + 1)));
}

std::string Repositories::objection_to(std::string_view address) const {
  switch (kind_of_address(address)) {
    case Address::kNetwork:
      return "";
    case Address::kOther:
      return "would or might make git run a command";
    case Address::kPath:
      break;
  }
  const bool is_url = address.starts_with("file://");
  if (is_url) address.remove_prefix(7);
  if (!address.starts_with('/') || (is_url && address.contains('%')))
    return "is read in more than one way by git: use an absolute path";
  // As it is now: every repository in a writable tree is guarded, and nobody else's comes there.
  std::string_view path = address.substr(std::min(address.find_first_not_of('/'), address.size()));
  for (;; path = parent_path(path)) {
    const auto fd = open_path_beneath(host_root_, path);
    if (!fd && (fd.error() == ENOENT || fd.error() == ENOTDIR) && !path.empty()) continue;
    const auto attr = fd ? stat_at(fd->get(), "") : Err(fd.error());
    if (attr && !attr->is_symlink() && !is_kernel_interface(fd->get())) return "";
    return "leads git through a link or to what is no file";
  }
}

bool Repositories::is_harmless_work_tree(const Located& dir, std::string_view path) const {
  const std::string base = absolute(dir);
  const auto there = resolve_path(base, path);
  const auto below = there ? below_root(dir.tree(), *there) : std::nullopt;
  if (!below || is_in_git_directory(dir.tree(), *below)) return false;
  if (lower_case(last_name(base)) == ".git" && *there == parent_path(base)) return true;
  // A submodule's: what it checks out comes to where git came from.
  const auto fd = open_path_beneath(dir.tree().fd.get(), *below);
  const auto text = fd ? read_small_file(fd->get(), ".git", kMaxText) : Err(fd.error());
  if (!text || !text->starts_with(kPointer)) return false;
  return resolve_path(*there, without_newline(*text).substr(kPointer.size())) == base;
}

Result<void> Repositories::may_become(const Name& at, std::string_view before,
                                      std::string_view now) {
  const std::string name = lower_case(at.name);
  if (name == ".git" || name == "commondir") return may_point(at, before, now);
  return may_configure(at, before, now, false);
}

Result<void> Repositories::may_configure(const Name& at, std::string_view before,
                                         std::string_view now, bool moving) {
  const auto old = parse_git_config(before).value_or(std::vector<ConfigEntry>());
  const auto entries = parse_git_config(now);
  if (!entries) return refuse(at, "git would not read this configuration");
  const std::set<ConfigEntry> known(old.begin(), old.end());
  for (const ConfigEntry& entry : *entries) {
    const std::string value = entry.value.value_or("");
    std::string objection;
    switch (effect_of(entry)) {
      case Effect::kHarmless:
        continue;
      case Effect::kRepository:
        objection = objection_to(value);
        break;
      case Effect::kWorkTree:
        if (moving || !is_harmless_work_tree(at.dir, value))
          objection = "would make git write its files elsewhere";
        break;
      case Effect::kRuns:
        objection = "would or might make git run a command";
        break;
    }
    if (objection.empty() || known.contains(entry)) continue;
    return refuse(at, fmt::format("{} {}", printable(entry.text()), objection));
  }
  return {};
}

Result<void> Repositories::may_point(const Name& at, std::string_view before,
                                     std::string_view now) {
  if (now.empty() || now == before) return {};
  const Tree& tree = at.dir.tree();
  const std::string_view text = without_newline(now);
  if (lower_case(at.name) == "commondir") {
    const std::string_view list = parent_path(at.dir.path);
    if (text == "../.." && last_name(list) == "worktrees" &&
        is_git_directory(tree, parent_path(list))) {
      return {};
    }
  } else if (text.starts_with(kPointer) && !text.contains('\0') &&
             !is_in_git_directory(tree, at.dir.path)) {
    // If it is a git directory, or becomes one, it is guarded.
    const auto target = resolve_path(absolute(at.dir), text.substr(kPointer.size()));
    const auto below = target ? below_root(tree, *target) : std::nullopt;
    const auto fd = below ? open_path_beneath(tree.fd.get(), *below) : Err(EXDEV);
    if (!fd && fd.error() == ENOENT) return {};
    const auto attr = fd ? stat_at(fd->get(), "") : Err(fd.error());
    if (attr && attr->is_directory()) return {};
  }
  return refuse(at, "it would lead git to another repository");
}

}  // namespace uks::gofer
