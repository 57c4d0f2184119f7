// What the repositories at the trees' roots use of the trees themselves: files that are part of
// their configuration or run as hooks, but lie among the others or have a name there.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "gofer/server/directory.h"
#include "gofer/server/git_config.h"
#include "gofer/server/git_directory.h"
#include "gofer/server/host_fs.h"
#include "gofer/server/repositories.h"

namespace uks::gofer {

using Change = Repositories::Change;

void Repositories::start(std::deque<Tree>& trees, int host_root) {
  host_root_ = host_root;
  if (!protect_) return;
  for (Tree& tree : trees) {
    if (!tree.writable) continue;
    tree.in_hooks = lies_in_hooks(tree.root);
    examine(tree);
  }
}

// Somebody who works in .git/hooks itself, or shows just that.
bool Repositories::lies_in_hooks(std::string_view root) const {
  for (std::string_view path = root.substr(1); !path.empty(); path = parent_path(path)) {
    if (lower_case(last_name(path)) != "hooks") continue;
    const std::string_view parent = parent_path(path);
    const auto dir = open_path_beneath(host_root_, parent);
    if (!dir) continue;
    if (lower_case(last_name(parent)) == ".git" || looks_like_git_directory(dir->get()))
      return true;
  }
  return false;
}

void Repositories::watch(const Tree& tree, std::string_view base, std::string_view path,
                         bool refused) {
  const auto there = resolve_path(base, path);
  if (!there || !below_root(tree, *there)) return;
  (refused ? included_ : noticed_).insert(*there);
  any_noticed_ = !noticed_.empty();
}

void Repositories::examine(const Tree& tree) {
  auto git = open_beneath(tree.fd.get(), ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const std::string top = tree.root == "/" ? "" : tree.root;
  const std::string base = git ? top + "/.git" : top;
  if (!git) git = open_beneath(tree.fd.get(), ".", O_RDONLY | O_DIRECTORY);
  if (!git || !looks_like_git_directory(git->get())) return;
  examine_hooks(tree, git->get(), base + "/hooks");
  for (const char* file : {"config", "config.worktree"}) {
    const auto attr = stat_at(git->get(), file);
    if (attr && attr->nlink > 1) linked_.insert({attr->dev, attr->ino});
    const auto text = read_small_file(git->get(), file, kMaxText);
    const auto entries = text ? parse_git_config(*text) : std::nullopt;
    if (!entries) continue;
    for (const ConfigEntry& entry : *entries) {
      if (!entry.value) continue;
      if ((entry.section == "include" || entry.section == "includeif") && entry.key == "path")
        watch(tree, base, *entry.value, true);
      if (entry.section == "core" && entry.key == "hookspath")
        watch(tree, top, *entry.value, false);
    }
  }
}

void Repositories::examine_hooks(const Tree& tree, int git, std::string_view base) {
  constexpr size_t kMost = 1000;
  char text[4096];
  // Kept elsewhere as a whole, which is as good as core.hooksPath.
  if (const ssize_t size = ::readlinkat(git, "hooks", text, sizeof text); size > 0)
    watch(tree, parent_path(base), {text, static_cast<size_t>(size)}, false);
  const auto hooks = open_beneath(git, "hooks", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const auto names = hooks ? list_names(hooks->get(), kMost) : Err(hooks.error());
  if (!names) return;
  for (const std::string& name : *names) {
    const auto attr = stat_at(hooks->get(), name.c_str());
    if (!attr) continue;
    if (attr->is_regular() && attr->nlink > 1) linked_.insert({attr->dev, attr->ino});
    if (!attr->is_symlink()) continue;
    const auto link = open_beneath(hooks->get(), name.c_str(), O_PATH | O_NOFOLLOW);
    const ssize_t size = link ? ::readlinkat(link->get(), "", text, sizeof text) : -1;
    if (size > 0) watch(tree, base, {text, static_cast<size_t>(size)}, false);
  }
}

Result<void> Repositories::check_watched(const Name& at, Change change) {
  if ((included_.empty() && !any_noticed_) || change == Change::kMode) return {};
  const std::string path = path_of(at);
  if (included_.contains(path)) return refuse(at, "git's configuration includes it");
  if (change == Change::kMove) {
    const auto below = included_.lower_bound(path + "/");
    if (below != included_.end() && is_at_or_below(*below, path))
      return refuse(at, "git's configuration includes a file in it");
  }
  if (!any_noticed_) return {};
  std::string hook;
  {
    const std::lock_guard lock(mutex_);
    for (std::string_view above = path; !above.empty() && hook.empty();
         above = parent_path(above)) {
      if (noticed_.contains(above)) hook = above;
    }
    // A directory or a link that comes brings what is below it.
    if (const auto below = noticed_.lower_bound(path + "/");
        hook.empty() && below != noticed_.end() && below->starts_with(path + "/") &&
        (change == Change::kPutDirectory || change == Change::kMakeLink)) {
      hook = *below;
    }
    if (hook.empty()) return {};
    noticed_.erase(hook);
    any_noticed_ = !noticed_.empty();
  }
  const std::string line =
      fmt::format("uks: note: {} is changed; git runs {} outside the sandbox: look at it first\n",
                  printable(path), path == hook ? "it as a hook" : "hooks in it");
  (void)!::write(2, line.data(), line.size());
  return {};
}

}  // namespace uks::gofer
