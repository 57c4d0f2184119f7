// Descriptor tables.
#include "sentry/vfs/fd_table.h"

#include <algorithm>

#include "sentry/task/task.h"
#include "sentry/vfs/locks.h"

namespace uks {
namespace {

// fs.nr_open: no limit of a process goes beyond it.
constexpr int kMaxFds = 1 << 20;

int fd_limit(Task& task) {
  rlim64_t limit = task.group().limits[RLIMIT_NOFILE].rlim_cur;
  return static_cast<int>(std::min<rlim64_t>(limit, kMaxFds));
}

void drop_posix_locks(const File& file, const void* owner) {
  Inode* inode = file.inode();
  if (FileLocks* locks = inode ? inode->locks_if_any() : nullptr) locks->release_owner(owner);
}

}  // namespace

FdTable::~FdTable() {
  for (Entry& e : entries_) {
    if (e.file) drop_posix_locks(*e.file, this);
  }
}

FdTable::Entry* FdTable::entry(int fd) {
  if (fd < 0 || static_cast<size_t>(fd) >= entries_.size()) return nullptr;
  Entry& e = entries_[static_cast<size_t>(fd)];
  return e.file ? &e : nullptr;
}

const FdTable::Entry* FdTable::entry(int fd) const { return const_cast<FdTable*>(this)->entry(fd); }

Result<Ref<File>> FdTable::get(int fd) const {
  const Entry* e = entry(fd);
  if (!e) return Err(EBADF);
  return e->file;
}

Result<Ref<File>> FdTable::get_io(int fd) const {
  const Entry* e = entry(fd);
  if (!e || (e->file->flags() & O_PATH)) return Err(EBADF);
  return e->file;
}

Result<int> FdTable::install(Task& task, Ref<File> file, bool close_on_exec, int min) {
  int limit = fd_limit(task);
  if (min < 0 || (min >= limit && min > 0)) return Err(EINVAL);
  int fd = std::max(min, first_free_);
  while (static_cast<size_t>(fd) < entries_.size() && entries_[static_cast<size_t>(fd)].file) ++fd;
  if (fd >= limit) return Err(EMFILE);
  if (static_cast<size_t>(fd) >= entries_.size()) entries_.resize(static_cast<size_t>(fd) + 1);
  entries_[static_cast<size_t>(fd)] = {std::move(file), close_on_exec};
  ++count_;
  if (min <= first_free_) first_free_ = fd + 1;
  return fd;
}

Result<void> FdTable::install_at(Task& task, int fd, Ref<File> file, bool close_on_exec) {
  if (fd < 0 || fd >= fd_limit(task)) return Err(EBADF);
  if (static_cast<size_t>(fd) >= entries_.size()) entries_.resize(static_cast<size_t>(fd) + 1);
  Ref<File> old = std::exchange(entries_[static_cast<size_t>(fd)].file, std::move(file));
  entries_[static_cast<size_t>(fd)].close_on_exec = close_on_exec;
  if (old) {
    finish_close(task, std::move(old));
  } else {
    ++count_;
  }
  return {};
}

void FdTable::finish_close(Task& task, Ref<File> file) {
  // POSIX: closing any descriptor of a file drops all the process's record locks on it.
  drop_posix_locks(*file, this);
  file->on_close(task);
}

Result<void> FdTable::close(Task& task, int fd) {
  Entry* e = entry(fd);
  if (!e) return Err(EBADF);
  Ref<File> file = std::move(e->file);
  e->close_on_exec = false;
  --count_;
  first_free_ = std::min(first_free_, fd);
  finish_close(task, std::move(file));
  return {};
}

void FdTable::close_range(Task& task, unsigned first, unsigned last, bool only_mark) {
  for (size_t fd = first; fd < entries_.size() && fd <= last; ++fd) {
    if (!entries_[fd].file) continue;
    if (only_mark) {
      entries_[fd].close_on_exec = true;
    } else {
      (void)close(task, static_cast<int>(fd));
    }
  }
}

void FdTable::close_on_exec(Task& task) {
  for (size_t fd = 0; fd < entries_.size(); ++fd) {
    if (entries_[fd].file && entries_[fd].close_on_exec) (void)close(task, static_cast<int>(fd));
  }
}

void FdTable::clear(Task& task) { close_range(task, 0, ~0u, false); }

Result<bool> FdTable::cloexec(int fd) const {
  const Entry* e = entry(fd);
  if (!e) return Err(EBADF);
  return e->close_on_exec;
}

Result<void> FdTable::set_cloexec(int fd, bool on) {
  Entry* e = entry(fd);
  if (!e) return Err(EBADF);
  e->close_on_exec = on;
  return {};
}

Ref<FdTable> FdTable::clone() const {
  auto copy = make_ref<FdTable>();
  copy->entries_ = entries_;
  copy->count_ = count_;
  copy->first_free_ = first_free_;
  return copy;
}

std::vector<int> FdTable::list() const {
  std::vector<int> fds;
  for (size_t fd = 0; fd < entries_.size(); ++fd) {
    if (entries_[fd].file) fds.push_back(static_cast<int>(fd));
  }
  return fds;
}

}  // namespace uks
