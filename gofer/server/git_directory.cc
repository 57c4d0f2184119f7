#include "gofer/server/git_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "gofer/server/directory.h"
#include "gofer/server/host_fs.h"

namespace uks::gofer {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

std::string_view parent_path(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view last_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_at_or_below(std::string_view path, std::string_view above) {
  if (above == "/") return true;
  return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) out += c >= ' ' && c < 0x7f ? c : '?';
  return out;
}

bool looks_like_git_directory(int fd) { return completes_git_directory(fd, ""); }

bool completes_git_directory(int fd, std::string_view name) {
  const auto has = [&](const char* each) { return name == each || stat_at(fd, each).has_value(); };
  if (has("HEAD")) return (has("objects") && has("refs")) || has("commondir");
  return has("worktrees") && has("objects") && has("refs");
}

const char* mark_of_git_directory(std::string_view lower) {
  return lower == "head"        ? "HEAD"
         : lower == "objects"   ? "objects"
         : lower == "refs"      ? "refs"
         : lower == "commondir" ? "commondir"
         : lower == "worktrees" ? "worktrees"
                                : nullptr;
}

bool is_git_subdirectory(std::string_view lower) {
  constexpr std::string_view kNames[] = {
      "annex",     "branches", "fsmonitor--daemon",    "hooks",        "info", "lfs",
      "logs",      "modules",  "notes_merge_worktree", "objects",      "refs", "reftable",
      "remotes",   "rr-cache", "rebase-apply",         "rebase-merge", "svn",  "worktrees",
      "sequencer", "patches",  "packed-refs.d"};
  return std::ranges::find(kNames, lower) != std::end(kNames);
}

namespace {

bool has_link_below(int dir, const char* name, bool top, int depth, size_t& budget) {
  const auto fd = open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const auto entries = fd ? list_entries(fd->get(), budget) : Err(fd.error());
  if (!entries || entries->size() >= budget || depth == 0) return true;
  budget -= entries->size();
  for (const RawEntry& entry : *entries) {
    const std::string lower = lower_case(entry.name);
    const auto attr =
        entry.type == DT_UNKNOWN ? stat_at(fd->get(), entry.name.c_str()) : Err(ENOENT);
    if (entry.type == DT_LNK || (attr && attr->is_symlink())) return true;
    if (entry.type != DT_DIR && !(attr && attr->is_directory())) continue;
    if (top && (lower == "objects" || !is_git_subdirectory(lower))) continue;
    if (has_link_below(fd->get(), entry.name.c_str(), false, depth - 1, budget)) return true;
  }
  return false;
}

}  // namespace

bool has_link(int fd) {
  size_t budget = 50'000;
  return has_link_below(fd, ".", true, 64, budget);
}

bool has_only(int dir, const char* name, bool (*allowed)(std::string_view name)) {
  const auto fd = open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd) return fd.error() == ENOENT;
  constexpr size_t kMost = 1000;
  const auto names = list_names(fd->get(), kMost);
  if (!names || names->size() >= kMost) return false;
  return std::ranges::all_of(*names, [&](const std::string& each) {
    const auto attr = stat_at(fd->get(), each.c_str());
    return attr && attr->is_regular() && allowed(each);
  });
}

Result<std::string> read_small_file(int dir, const char* name, size_t max) {
  UniqueFd fd = TRY(open_beneath(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  const Attr attr = TRY(stat_at(fd.get(), ""));
  if (!attr.is_regular()) return Err(EINVAL);
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::pread(fd.get(), buffer, sizeof buffer, static_cast<off_t>(text.size()));
    if (n < 0) return HostErr();
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > max) return Err(EFBIG);
  }
}

Result<void> put_file(int dir, const char* name, const char* temporary, std::string_view text,
                      const Attr& like, bool give_away) {
  (void)::unlinkat(dir, temporary, 0);  // of a gofer that was killed right here
  UniqueFd copy =
      TRY(open_beneath(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, like.mode & 0777));
  const auto fill = [&]() -> Result<void> {
    if (give_away && ::fchownat(copy.get(), "", like.uid, like.gid, AT_EMPTY_PATH) < 0)
      return HostErr();
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t n =
          ::pwrite(copy.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
      if (n <= 0) return n < 0 ? HostErr() : Err(ENOSPC);
      done += static_cast<size_t>(n);
    }
    if (syscall(SYS_renameat2, dir, temporary, dir, name, 0) < 0) return HostErr();
    return {};
  };
  auto filled = fill();
  if (!filled) (void)::unlinkat(dir, temporary, 0);
  return filled;
}

}  // namespace uks::gofer
