// epoll(7), after fs/eventpoll.c.
#include "sentry/fs/epoll/epoll.h"

#include <fmt/format.h>
#include <algorithm>
#include <iterator>

#include "sentry/vfs/anon.h"

namespace uks {
namespace {

// Bits of epoll_event.events that are not events.
constexpr uint32_t kPrivateBits = EPOLLWAKEUP | EPOLLONESHOT | EPOLLET | EPOLLEXCLUSIVE;
constexpr uint32_t kExclusiveAllowed =
    EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE;

// How many paths of 2, 3, 4, 5 epolls may lead to one file; any number of paths of one (path_limits
// in the kernel).
constexpr std::array<int, Epoll::kMaxNesting> kPathLimits = {500, 100, 50, 10};
uint64_t last_round = 0;  // of walks over epolls, under the kernel lock

}  // namespace

EpollItem::EpollItem(Epoll& epoll, int fd, File& file, uint32_t events, uint64_t data)
    : epoll_(epoll), fd_(fd), file_(file), events_(events | EPOLLERR | EPOLLHUP), data_(data) {
  next_of_file_ = file.epoll_items;
  file.epoll_items = this;
}

EpollItem::~EpollItem() {
  epoll_.clear_ready(*this);
  EpollItem** link = &file_.epoll_items;
  while (*link && *link != this) link = &(*link)->next_of_file_;
  if (*link) *link = next_of_file_;
}

void EpollItem::on_wake(uint32_t) {
  // Disabled by EPOLLONESHOT.
  if (!(events_ & ~kPrivateBits)) return;
  epoll_.set_ready(*this);
}

Epoll::Epoll(Ref<Inode> inode) : File(Path{}, O_RDWR), inode_(std::move(inode)) {}

Epoll::~Epoll() { items_.clear(); }

void Epoll::set_ready(EpollItem& item) {
  if (!item.ready_) {
    item.ready_ = true;
    item.ready_position_ = ready_.insert(ready_.end(), &item);
  }
  queue_.wake(EPOLLIN | EPOLLRDNORM);
}

void Epoll::clear_ready(EpollItem& item) {
  if (!item.ready_) return;
  item.ready_ = false;
  ready_.erase(item.ready_position_);
}

void Epoll::watch(Task& task, EpollItem& item, WaitQueue* queue) {
  if (!queue) return;
  queue->add(item, item.events_ & ~kPrivateBits);
  if (item.file_.poll_events_for(task) & item.events_ & ~kPrivateBits) set_ready(item);
}

std::optional<int> Epoll::depth_below(const Epoll* target, int budget) const {
  if (this == target || budget < 0) return std::nullopt;
  if (visit_round_ == last_round) return depth_;
  int deepest = 0;
  for (const auto& [key, item] : items_) {
    if (key.second->kind() != FileKind::kEpoll) continue;
    auto below = static_cast<const Epoll*>(key.second)->depth_below(target, budget - 1);
    if (!below) return std::nullopt;
    deepest = std::max(deepest, *below + 1);
  }
  visit_round_ = last_round;
  depth_ = deepest;
  return deepest;
}

int Epoll::depth_above(int budget) const {
  if (visit_round_ == last_round) return depth_;
  int highest = 0;
  if (budget == 0) return highest;
  for (const EpollItem* item = epoll_items; item; item = item->next_of_file_) {
    highest = std::max(highest, item->epoll_.depth_above(budget - 1) + 1);
  }
  visit_round_ = last_round;
  depth_ = highest;
  return highest;
}

// reverse_path_check_proc() in the kernel: ends at the first path too many.
bool Epoll::paths_fit(const File& file, PathCounts& counts, size_t length) {
  for (const EpollItem* item = file.epoll_items; item; item = item->next_of_file_) {
    if (item->epoll_.epoll_items) {
      if (length + 1 >= counts.size() || !paths_fit(item->epoll_, counts, length + 1)) return false;
    } else if (length > 0 && ++counts[length] > kPathLimits[length - 1]) {
      return false;
    }
  }
  return true;
}

bool Epoll::paths_below_fit() const {
  if (visit_round_ == last_round) return true;
  visit_round_ = last_round;
  for (const auto& [key, item] : items_) {
    if (key.second->kind() == FileKind::kEpoll) {
      if (!static_cast<const Epoll*>(key.second)->paths_below_fit()) return false;
      continue;
    }
    PathCounts counts{};
    if (!paths_fit(*key.second, counts, 0)) return false;
  }
  return true;
}

Result<void> Epoll::add(Task& task, int fd, File& file, GuestEpollEvent event) {
  if (&file == this) return Err(EINVAL);
  if (!file.wait_queue()) return Err(EPERM);
  if (event.events & EPOLLEXCLUSIVE) {
    if ((event.events & ~kExclusiveAllowed) || file.kind() == FileKind::kEpoll) return Err(EINVAL);
  }
  if (file.kind() == FileKind::kEpoll) {
    last_round++;
    const auto below = static_cast<Epoll&>(file).depth_below(this, kMaxNesting);
    last_round++;
    if (!below || *below + 1 + depth_above(kMaxNesting + 1) > kMaxNesting) return Err(ELOOP);
  }
  if (items_.contains({fd, &file})) return Err(EEXIST);
  if (items_.size() >= kMaxItems) return Err(ENOSPC);
  auto item =
      std::make_unique<EpollItem>(*this, fd, file, uint32_t{event.events}, uint64_t{event.data});
  EpollItem& added = *item;
  items_.emplace(Key{fd, &file}, std::move(item));
  // The paths became more only if this epoll is watched itself, or another is watched now.
  const bool nested = file.kind() == FileKind::kEpoll;
  if (nested || epoll_items) {
    last_round++;
    PathCounts counts{};
    if (nested ? !static_cast<Epoll&>(file).paths_below_fit() : !paths_fit(file, counts, 0)) {
      items_.erase({fd, &file});
      return Err(EINVAL);
    }
  }
  watch(task, added, file.wait_queue_for(task));
  return {};
}

Result<void> Epoll::modify(Task& task, int fd, File& file, GuestEpollEvent event) {
  if (&file == this) return Err(EINVAL);
  if (!file.wait_queue()) return Err(EPERM);
  if (event.events & EPOLLEXCLUSIVE) return Err(EINVAL);
  auto it = items_.find({fd, &file});
  if (it == items_.end()) return Err(ENOENT);
  EpollItem& item = *it->second;
  if (item.events_ & EPOLLEXCLUSIVE) return Err(EINVAL);
  item.events_ = event.events | EPOLLERR | EPOLLHUP;
  item.data_ = event.data;
  watch(task, item, item.queue());
  return {};
}

Result<void> Epoll::remove(int fd, File& file) {
  if (&file == this) return Err(EINVAL);
  if (!file.wait_queue()) return Err(EPERM);
  return items_.erase({fd, &file}) ? Result<void>() : Err(ENOENT);
}

uint32_t Epoll::poll_events_for(Task& task) {
  for (auto it = ready_.begin(); it != ready_.end();) {
    EpollItem& item = **it++;
    if (item.file_.poll_events_for(task) & item.events_ & ~kPrivateBits)
      return EPOLLIN | EPOLLRDNORM;
    clear_ready(item);
  }
  return 0;
}

std::vector<GuestEpollEvent> Epoll::collect(Task& task, size_t max, std::vector<Used>& used) {
  std::vector<GuestEpollEvent> events;
  // Level-triggered items go back to the end, so each is looked at once.
  size_t left = ready_.size();
  while (left-- > 0 && events.size() < max) {
    EpollItem& item = *ready_.front();
    const uint32_t happened = item.file_.poll_events_for(task) & item.events_ & ~kPrivateBits;
    if (!happened) {
      clear_ready(item);
      continue;
    }
    events.push_back({happened, item.data_});
    if (item.events_ & (EPOLLONESHOT | EPOLLET))
      used.push_back({{item.fd_, &item.file_}, item.events_});
    if (item.events_ & EPOLLONESHOT) {
      item.events_ &= kPrivateBits;
      clear_ready(item);
    } else if (item.events_ & EPOLLET) {
      clear_ready(item);
    } else {
      ready_.splice(ready_.end(), ready_, item.ready_position_);
    }
  }
  return events;
}

void Epoll::put_back(const std::vector<Used>& used) {
  for (const Used& u : used) {
    const auto it = items_.find(u.key);
    if (it == items_.end()) continue;
    // Unless it was changed meanwhile.
    if (it->second->events_ == (u.events & kPrivateBits)) it->second->events_ = u.events;
    set_ready(*it->second);
  }
}

std::string Epoll::fdinfo() const {
  std::string text;
  for (const auto& [key, item] : items_) {
    fmt::format_to(std::back_inserter(text), "tfd: {:8} events: {:8x} data: {:16x}\n", key.first,
                   item->events_, item->data_);
  }
  return text;
}

void forget_epoll_items(File& file) {
  while (EpollItem* item = file.epoll_items) {
    item->epoll_.items_.erase({item->fd_, &file});
  }
}

}  // namespace uks
