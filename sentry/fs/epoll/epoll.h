// epoll(7): an interest list, and the part of it that may be ready.
#pragma once
#include <array>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sentry/task/wait_queue.h"
#include "sentry/vfs/file.h"

namespace uks {

class Epoll;

// One registration. It holds no reference: it ends when the description it watches does (~File
// calls forget_epoll_items) or when its epoll does.
class EpollItem final : public Waiter {
 public:
  EpollItem(Epoll& epoll, int fd, File& file, uint32_t events, uint64_t data);
  ~EpollItem() override;
  void on_wake(uint32_t events) override;

 private:
  friend class Epoll;
  friend void forget_epoll_items(File& file);
  Epoll& epoll_;
  int fd_;
  File& file_;
  uint32_t events_;
  uint64_t data_;
  bool ready_ = false;
  std::list<EpollItem*>::iterator ready_position_;
  EpollItem* next_of_file_ = nullptr;  // the list that starts at File::epoll_items
};

// The kernel's struct epoll_event on x86-64.
struct __attribute__((packed)) GuestEpollEvent {
  uint32_t events;
  uint64_t data;
};
static_assert(sizeof(GuestEpollEvent) == 12);

class Epoll final : public File {
 public:
  static constexpr size_t kMaxItems = size_t{1} << 18;  // ENOSPC above it
  static constexpr int kMaxNesting = 4;                 // EP_MAX_NESTS

  explicit Epoll(Ref<Inode> inode);
  ~Epoll() override;

  Inode* inode() const override { return inode_.get(); }
  std::string anonymous_name() const override { return "anon_inode:[eventpoll]"; }
  FileKind kind() const override { return FileKind::kEpoll; }
  Result<int64_t> seek(Task&, int64_t, int) override { return pos; }  // noop_llseek()
  // Whether anything may be ready; only a task can tell whether it is.
  uint32_t poll_events() override { return ready_.empty() ? 0u : EPOLLIN | EPOLLRDNORM; }
  uint32_t poll_events_for(Task& task) override;
  WaitQueue* wait_queue() override { return &queue_; }
  std::string fdinfo() const override;

  // epoll_ctl(2). EPERM: the file cannot be polled. ELOOP: a circle, or too deep; EINVAL also: too
  // many paths of epolls lead to one file. EEXIST, ENOENT, ENOSPC. Wakes come from the queue that
  // the file has for the task which adds it, ever after.
  Result<void> add(Task& task, int fd, File& file, GuestEpollEvent event);
  Result<void> modify(Task& task, int fd, File& file, GuestEpollEvent event);
  Result<void> remove(int fd, File& file);

  using Key = std::pair<int, File*>;
  // An event that collect() used up: edge-triggered, or the one of EPOLLONESHOT.
  struct Used {
    Key key;
    uint32_t events;  // as registered
  };
  // Takes up to `max` events that hold now, for `task`.
  std::vector<GuestEpollEvent> collect(Task& task, size_t max, std::vector<Used>& used);
  // They did not reach the guest: they are to be had again.
  void put_back(const std::vector<Used>& used);

 private:
  friend class EpollItem;
  friend void forget_epoll_items(File& file);
  void set_ready(EpollItem& item);
  void clear_ready(EpollItem& item);
  // Registers on `queue` and looks at once whether the file is ready. Null: does nothing.
  void watch(Task& task, EpollItem& item, WaitQueue* queue);
  // How many levels of epolls lie below this one; nullopt: `target` is among them, or too many.
  // Each epoll is looked at once a round (`visit_round_`), by however many paths it is reached.
  std::optional<int> depth_below(const Epoll* target, int budget) const;
  int depth_above(int budget) const;
  // Whether no file below, directly or not, is reached by too many paths (reverse_path_check() in
  // the kernel): each wake-up walks all of them.
  bool paths_below_fit() const;
  using PathCounts = std::array<int, kMaxNesting + 1>;  // by length less 1
  static bool paths_fit(const File& file, PathCounts& counts, size_t length);

  Ref<Inode> inode_;
  std::map<Key, std::unique_ptr<EpollItem>> items_;
  std::list<EpollItem*> ready_;
  WaitQueue queue_;
  // The last walk that came here, and what it found.
  mutable uint64_t visit_round_ = 0;
  mutable int depth_ = 0;
};

// Ends all registrations of a description that goes away.
void forget_epoll_items(File& file);

}  // namespace uks
