// Descriptor tables.
#include "sentry/vfs/fd_table.h"

#include <algorithm>
#include <iterator>

#include "sentry/net/unix/garbage.h"
#include "sentry/task/task.h"
#include "sentry/vfs/locks.h"

namespace uks {
namespace {

// fs.nr_open: no limit of a process goes beyond it.
constexpr int kMaxFds = 1 << 20;
// fs.file-max of the sandbox: descriptors of all processes together, some 30 bytes each.
constexpr size_t kMaxTotal = 2'000'000;
size_t total_descriptors = 0;  // under the kernel lock

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
  for (int fd : list()) drop_posix_locks(*entry(fd)->file, this);
  total_descriptors -= static_cast<size_t>(count_);
}

Result<void> FdTable::check_total(size_t n) {
  if (total_descriptors + n > kMaxTotal) return Err(ENFILE);
  return {};
}

FdTable::Entry* FdTable::entry(int fd) {
  if (fd < 0) return nullptr;
  if (fd >= kLow) {
    auto it = high_.find(fd);
    return it == high_.end() ? nullptr : &it->second;
  }
  if (static_cast<size_t>(fd) >= entries_.size()) return nullptr;
  Entry& e = entries_[static_cast<size_t>(fd)];
  return e.file ? &e : nullptr;
}

void FdTable::put(int fd, Entry e) {
  if (fd >= kLow) {
    high_[fd] = std::move(e);
    add_to_runs(fd);
  } else {
    if (static_cast<size_t>(fd) >= entries_.size()) entries_.resize(static_cast<size_t>(fd) + 1);
    entries_[static_cast<size_t>(fd)] = std::move(e);
  }
  ++count_;
  ++total_descriptors;
}

int FdTable::lowest_free_high(int min) const {
  auto run = high_runs_.upper_bound(min);
  if (run == high_runs_.begin()) return min;
  --run;
  return std::max(min, run->second);
}

void FdTable::add_to_runs(int fd) {
  int first = fd, end = fd + 1;
  auto next = high_runs_.upper_bound(fd);
  if (next != high_runs_.end() && next->first == end) {
    end = next->second;
    next = high_runs_.erase(next);
  }
  if (next != high_runs_.begin()) {
    if (auto before = std::prev(next); before->second == fd) first = before->first;
  }
  high_runs_[first] = end;
}

void FdTable::take_from_runs(int fd) {
  const auto run = std::prev(high_runs_.upper_bound(fd));
  const int end = run->second;
  run->second = fd;
  if (run->first == fd) high_runs_.erase(run);
  if (end > fd + 1) high_runs_[fd + 1] = end;
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
  TRY(check_total(1));
  int fd = std::max(min, first_free_);
  while (fd < kLow && in_use(fd)) ++fd;
  if (fd >= kLow) fd = lowest_free_high(fd);
  if (fd >= limit) return Err(EMFILE);
  put(fd, {std::move(file), close_on_exec});
  if (min <= first_free_) first_free_ = fd + 1;
  return fd;
}

Result<void> FdTable::install_at(Task& task, int fd, Ref<File> file, bool close_on_exec) {
  if (fd < 0 || fd >= fd_limit(task)) return Err(EBADF);
  if (Entry* e = entry(fd)) {
    Ref<File> old = std::exchange(e->file, std::move(file));
    e->close_on_exec = close_on_exec;
    finish_close(task, std::move(old));
    return {};
  }
  TRY(check_total(1));
  put(fd, {std::move(file), close_on_exec});
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
  if (fd >= kLow) {
    high_.erase(fd);
    take_from_runs(fd);
  } else {
    e->close_on_exec = false;
  }
  --count_;
  --total_descriptors;
  first_free_ = std::min(first_free_, fd);
  // Linux looks for garbage when the last close of all that a process drops is done: a socket that
  // lies in a queue may have nobody else now.
  const bool in_a_queue = is_in_a_queue(*file);
  finish_close(task, std::move(file));
  if (in_a_queue) collect_garbage_soon();
  return {};
}

void FdTable::close_range(Task& task, unsigned first, unsigned last, bool only_mark) {
  for (int fd : list()) {
    unsigned n = static_cast<unsigned>(fd);
    if (n < first || n > last) continue;
    if (only_mark) {
      (void)set_cloexec(fd, true);
    } else {
      (void)close(task, fd);
    }
  }
}

void FdTable::close_on_exec(Task& task) {
  for (int fd : list()) {
    if (Entry* e = entry(fd); e && e->close_on_exec) (void)close(task, fd);
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
  copy->high_ = high_;
  copy->high_runs_ = high_runs_;
  total_descriptors += static_cast<size_t>(count_);
  copy->count_ = count_;
  copy->first_free_ = first_free_;
  return copy;
}

std::vector<int> FdTable::list() const {
  std::vector<int> fds;
  for (size_t fd = 0; fd < entries_.size(); ++fd) {
    if (entries_[fd].file) fds.push_back(static_cast<int>(fd));
  }
  for (auto& [fd, e] : high_) fds.push_back(fd);
  return fds;
}

}  // namespace uks
