// getdents, getcwd, chdir, fchdir.
#include <dirent.h>

#include <cstring>

#include "gen/syscalls.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/notify.h"
#include "sentry/vfs/ops.h"
#include "sentry/vfs/permissions.h"

namespace uks {
namespace {

// Layouts of struct linux_dirent64 and struct linux_dirent.
constexpr size_t kHeader64 = 19;
constexpr size_t kHeader = 18;
constexpr size_t kLongestRecord = 280;  // a name of 255 bytes

template <typename T>
void put(char* at, T value) {
  memcpy(at, &value, sizeof value);
}

Result<int64_t> do_getdents(Task& task, int fd, UserOut buf, uint32_t count, bool is64) {
  Ref<File> file = TRY(task.fds().get_io(fd));
  if (!file->inode() || !file->inode()->is_dir()) return Err(ENOTDIR);
  // One call returns at most this much; a guest cannot make the kernel hold a larger buffer.
  size_t room = std::min<size_t>(count, 256 * 1024);
  // Nor beyond what can surely be written, if that is something: an entry is read once.
  size_t writable = room;
  if (task.thread && !task.call().woken) {
    const size_t probed = std::min<size_t>(room, task.thread->probed());
    if (probed >= kLongestRecord || task.thread->probe_fault()) writable = probed;
  }
  std::string out;
  bool full = false, faulted = false;
  auto sink = [&](std::string_view name, uint64_t ino, int64_t next, unsigned char type) {
    // The old layout keeps the type in the record's last byte.
    size_t length =
        ((is64 ? kHeader64 : kHeader) + name.size() + 1 + (is64 ? 0 : 1) + 7) & ~size_t{7};
    if (out.size() + length > writable) {
      if (out.size() + length <= room) faulted = writable < room;
      full = true;
      return false;
    }
    size_t at = out.size();
    out.resize(at + length);
    char* p = out.data() + at;
    put<uint64_t>(p, ino);
    put<int64_t>(p + 8, next);
    put<uint16_t>(p + 16, static_cast<uint16_t>(length));
    if (is64) p[18] = static_cast<char>(type);
    memcpy(p + (is64 ? kHeader64 : kHeader), name.data(), name.size());
    if (!is64) p[length - 1] = static_cast<char>(type);
    return true;
  };
  int64_t before = file->pos;
  TRY(file->iterate(task, sink));
  notify::file(*file, IN_ACCESS);
  if (out.empty()) {
    if (full) return Err(faulted ? EFAULT : EINVAL);
    return 0;
  }
  if (auto r = task.copy_out(buf, out.data(), out.size()); !r) {
    file->pos = before;
    return Err(r.error());
  }
  return static_cast<int64_t>(out.size());
}

}  // namespace

Result<int64_t> sys_getdents64(Task& task, int fd, UserOut buf, uint32_t count) {
  return do_getdents(task, fd, buf, count, true);
}

Result<int64_t> sys_getdents(Task& task, int fd, UserOut buf, uint32_t count) {
  return do_getdents(task, fd, buf, count, false);
}

Result<int64_t> sys_getcwd(Task& task, UserOut buf, uint64_t size) {
  bool reachable, deleted;
  std::string path = path_string(task.fs().cwd, task.fs().root, reachable, deleted);
  if (deleted) return Err(ENOENT);
  if (!reachable) path = "(unreachable)" + path;
  if (path.size() + 1 > 4096) return Err(ENAMETOOLONG);
  if (path.size() + 1 > size) return Err(ERANGE);
  TRY(task.copy_out(buf, path.c_str(), path.size() + 1));
  return static_cast<int64_t>(path.size() + 1);
}

Result<int64_t> sys_chdir(Task& task, UserPath path) {
  Path place = TRY(resolve_at(task, AT_FDCWD, path, kFollowLast | kMustBeDir));
  TRY(check_place(task, place, kMayExec));
  task.fs().cwd = std::move(place);
  return 0;
}

Result<int64_t> sys_fchdir(Task& task, int fd) {
  Ref<File> file = TRY(task.fds().get(fd));
  Path place = file->path();
  if (!place || !place.inode() || !place.inode()->is_dir()) return Err(ENOTDIR);
  TRY(check_place(task, place, kMayExec));
  task.fs().cwd = std::move(place);
  return 0;
}

}  // namespace uks
