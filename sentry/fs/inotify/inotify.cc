// inotify(7), after fs/notify/inotify.
#include "sentry/fs/inotify/inotify.h"

#include <sys/inotify.h>
#include <sys/ioctl.h>

#include <climits>

#include <fmt/format.h>

#include "sentry/task/task.h"

namespace uks {
namespace {

size_t instances = 0;

constexpr uint32_t kKept = IN_ALL_EVENTS | IN_ONESHOT | IN_EXCL_UNLINK;

}  // namespace

size_t InotifyFile::Event::padded_name() const {
  if (name.empty()) return 0;
  constexpr size_t kUnit = sizeof(inotify_event);
  return (name.size() + 1 + kUnit - 1) / kUnit * kUnit;
}

size_t InotifyFile::Event::bytes() const { return sizeof(inotify_event) + padded_name(); }

Result<Ref<InotifyFile>> InotifyFile::make(int flags, Ref<Inode> inode, Ref<PageQuota> quota) {
  if (instances >= kMaxInstances) return Err(EMFILE);
  return make_ref<InotifyFile>(flags, std::move(inode), std::move(quota));
}

InotifyFile::InotifyFile(int flags, Ref<Inode> inode, Ref<PageQuota> quota)
    : File(Path{}, flags),
      inode_(std::move(inode)),
      account_(make_ref<PageAccount>(std::move(quota))) {
  ++instances;
}

InotifyFile::~InotifyFile() { --instances; }

Result<int> InotifyFile::watch(Ref<Inode> inode, uint32_t mask) {
  for (Watch* known = inode->watches; known; known = known->next) {
    if (&known->owner != this) continue;
    if (mask & IN_MASK_CREATE) return Err(EEXIST);
    known->mask = (mask & IN_MASK_ADD ? known->mask : 0) | (mask & kKept);
    return known->number;
  }
  if (notify::watches >= kMaxWatches) return Err(ENOSPC);
  do {
    last_number_ = last_number_ == INT_MAX ? 1 : last_number_ + 1;
  } while (watches_.contains(last_number_));
  const bool first = !inode->watches;
  const Ref<Inode> keep = inode;
  const int number = last_number_;
  watches_[number].reset(new Watch(*this, std::move(inode), number, mask & kKept));
  if (first) keep->begin_watch();
  return number;
}

Result<void> InotifyFile::unwatch(int number) {
  const auto it = watches_.find(number);
  if (it == watches_.end()) return Err(EINVAL);
  end(*it->second);
  return {};
}

void InotifyFile::end(Watch& watch) {
  const int number = watch.number;
  watches_.erase(number);
  queue({number, IN_IGNORED, 0, {}});
}

void InotifyFile::on_event(Watch& watch, uint32_t mask, uint32_t cookie, std::string_view name) {
  // What happens to the watched file itself is told without its type.
  if (mask & (IN_DELETE_SELF | IN_MOVE_SELF)) mask &= ~static_cast<uint32_t>(IN_ISDIR);
  queue({watch.number, mask, cookie, std::string(name)});
  if (watch.mask & IN_ONESHOT) end(watch);
}

void InotifyFile::on_inode_gone(Watch& watch) { end(watch); }

void InotifyFile::charge() { account_->set(PageQuota::pages_of(held_)); }

void InotifyFile::queue(Event event) {
  const Event* last = events_.empty() ? nullptr : &events_.back();
  if (last && last->watch == event.watch && last->mask == event.mask && last->name == event.name)
    return;
  const size_t more = sizeof(Event) + event.name.size();
  const bool full =
      events_.size() >= kMaxEvents ||
      PageQuota::pages_of(held_ + more) > account_->pages() + account_->quota().available();
  if (full) {
    if (last && last->mask == IN_Q_OVERFLOW) return;
    event = {-1, IN_Q_OVERFLOW, 0, {}};
  }
  held_ += sizeof(Event) + event.name.size();
  events_.push_back(std::move(event));
  charge();
  queue_.wake(EPOLLIN | EPOLLRDNORM);
}

Result<size_t> InotifyFile::read(Task&, IoSink& sink) {
  size_t done = 0;
  while (!events_.empty()) {
    const Event& event = events_.front();
    if (event.bytes() > sink.remaining()) {
      if (done == 0) return Err(EINVAL);
      break;
    }
    std::string record(event.bytes(), '\0');
    const inotify_event header{event.watch, event.mask, event.cookie,
                               static_cast<uint32_t>(event.padded_name())};
    memcpy(record.data(), &header, sizeof header);
    memcpy(record.data() + sizeof header, event.name.data(), event.name.size());
    held_ -= sizeof(Event) + event.name.size();
    events_.pop_front();
    charge();
    // An event that cannot be handed over is lost, as on Linux.
    const auto n = sink.write_whole(record.data(), record.size());
    if (!n) return done ? Result<size_t>(done) : Err(n.error());
    done += record.size();
  }
  if (done == 0) return Err(EAGAIN);
  return done;
}

Result<int64_t> InotifyFile::ioctl(Task& task, uint32_t request, uint64_t arg) {
  if (request != FIONREAD) return Err(ENOTTY);
  size_t bytes = 0;
  for (const Event& event : events_) bytes += event.bytes();
  TRY(task.copy_out(UserAddr{arg}, static_cast<int>(bytes)));
  return 0;
}

uint32_t InotifyFile::poll_events() { return events_.empty() ? 0u : EPOLLIN | EPOLLRDNORM; }

std::string InotifyFile::fdinfo() const {
  std::string text;
  for (const auto& [number, watch] : watches_) {
    const auto attr = watch->inode->getattr();
    text += fmt::format("inotify wd:{:x} ino:{:x} sdev:{:x} mask:{:x} ignored_mask:0 \n", number,
                        attr ? attr->ino : 0, watch->inode->fs().dev(), watch->mask);
  }
  return text;
}

}  // namespace uks
