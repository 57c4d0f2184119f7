// FdTable: descriptor numbers of a process.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "sentry/task/task.h"
#include "sentry/vfs/file.h"

namespace uks {

class FdTable : public RefCounted {
 public:
  ~FdTable() override;

  // EBADF.
  Result<Ref<File>> get(int fd) const;
  // As get(), but O_PATH descriptors are EBADF too: for calls that do I/O or change the file.
  Result<Ref<File>> get_io(int fd) const;
  // The lowest free descriptor >= min. EMFILE (RLIMIT_NOFILE of the task's process), EINVAL for a
  // `min` beyond the limit.
  Result<int> install(Task& task, Ref<File> file, bool close_on_exec, int min = 0);
  // Exactly `fd`, closing what was there. EBADF beyond the limit.
  Result<void> install_at(Task& task, int fd, Ref<File> file, bool close_on_exec);
  Result<void> close(Task& task, int fd);
  // All of first..last; with `only_mark` they become close-on-exec instead.
  void close_range(Task& task, unsigned first, unsigned last, bool only_mark);
  // execve: closes what is marked.
  void close_on_exec(Task& task);
  // The end of a process: closes everything.
  void clear(Task& task);

  Result<bool> cloexec(int fd) const;
  Result<void> set_cloexec(int fd, bool on);

  // For fork and unshare: the same descriptions under the same numbers.
  Ref<FdTable> clone() const;
  // Whether the sandbox may have `n` more descriptors. ENFILE.
  static Result<void> check_total(size_t n);

  // Descriptors in use, in order.
  std::vector<int> list() const;
  int count() const { return count_; }

 private:
  struct Entry {
    Ref<File> file;
    bool close_on_exec = false;
  };
  void finish_close(Task& task, Ref<File> file);
  // Puts `file` at a free number.
  void put(int fd, Entry entry);
  bool in_use(int fd) const { return entry(fd) != nullptr; }
  Entry* entry(int fd);
  const Entry* entry(int fd) const;

  // Low numbers in an array, high ones, which are few if any, by name: a guest that uses number
  // 1,000,000 pays for one entry only.
  static constexpr int kLow = 4096;
  std::vector<Entry> entries_;
  std::map<int, Entry> high_;
  // The runs of numbers in high_: first to behind the last. So the lowest free one is found at
  // once.
  std::map<int, int> high_runs_;
  int lowest_free_high(int min) const;
  void add_to_runs(int fd);
  void take_from_runs(int fd);
  int count_ = 0;
  int first_free_ = 0;  // no free descriptor below this one
};

}  // namespace uks
