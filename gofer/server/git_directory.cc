#include "gofer/server/git_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "gofer/server/directory.h"
#include "gofer/server/host_fs.h"
#include "gofer/server/repository_memory.h"

namespace uks::gofer {

bool looks_like_git_directory(int fd) { return completes_git_directory(fd, ""); }

bool completes_git_directory(int fd, std::string_view name) {
  const auto has = [&](const char* each) { return name == each || stat_at(fd, each).has_value(); };
  return has("HEAD") && ((has("objects") && has("refs")) || has("commondir"));
}

bool visit_directories(int dir, size_t max, const Visit& visit) {
  std::vector<std::string> pending{""};
  while (!pending.empty()) {
    const std::string path = std::move(pending.back());
    pending.pop_back();
    const auto fd = path.empty() ? open_beneath(dir, ".", O_RDONLY | O_DIRECTORY)
                                 : open_path_beneath(dir, path);
    if (!fd) return false;
    const auto attr = stat_at(fd->get(), "");
    if (!attr || !visit(path, fd->get(), *attr)) return false;
    if (!attr->is_directory()) continue;
    const auto list = open_beneath(fd->get(), ".", O_RDONLY | O_DIRECTORY);
    if (!list) return false;
    const auto entries = list_entries(list->get(), max);
    if (!entries || entries->size() >= max) return false;
    max -= entries->size();
    for (const RawEntry& entry : *entries) {
      const bool directory = entry.type == DT_DIR || entry.type == DT_UNKNOWN;
      if (directory || lower_case(entry.name) == ".git")
        pending.push_back(path.empty() ? entry.name : path + "/" + entry.name);
    }
  }
  return true;
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
