#include "sentry/fs/goferfs/host_watches.h"

#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "sentry/fs/goferfs/gofer_fs.h"
#include "sentry/vfs/notify.h"

namespace uks {

HostWatches::~HostWatches() {
  if (tells_) events_.remove(instance_.get());
}

bool HostWatches::start(GoferInode& inode, Why why) {
  // The host's watches are its user's, who has other programs as well; some hosts give him 8,192.
  constexpr size_t kMost = 4096, kMostToBelieve = 1024;
  const size_t most = why == Why::kToBelieve ? kMostToBelieve : kMost;
  if (watched_.size() + ended_.size() >= most) return false;
  const Ref<HostWatches> self(this);
  const Ref<GoferInode> keep(&inode);
  // A file has one number on the host: it must not be given up after it was asked for again.
  give_up_ended();
  while (giving_up_ > 0 || (asked_for_instance_ && !instance_)) {
    Unlocked unlocked;
    const timespec pause{0, 200'000};
    ::nanosleep(&pause, nullptr);
  }
  const bool first = !std::exchange(asked_for_instance_, true);
  const uint32_t flags =
      (first ? gofer::kWatchInstance : 0) | (why == Why::kToBelieve ? gofer::kWatchAll : 0);
  const gofer::NodeId id = inode.id_;
  Result<gofer::WatchedFile> watched = Err(EIO);
  {
    Unlocked unlocked;
    watched = client_.watch(id, flags);
  }
  if (!watched) {
    if (first) asked_for_instance_ = false;
    return false;
  }
  if (watched->fd) instance_ = std::move(watched->fd);
  if (why == Why::kToTell && !tells_ && instance_) {
    tells_ = true;
    (void)events_.add(instance_.get(), EPOLLIN | EPOLLET, *this);
  }
  if (inode.host_watch_ != 0 && inode.host_watch_ != watched->watch)
    watched_.erase(inode.host_watch_);
  inode.host_watch_ = watched->watch;
  inode.believes_ |= why == Why::kToBelieve;
  watched_[watched->watch] = &inode;
  return true;
}

void HostWatches::stop(GoferInode& inode) {
  const int number = std::exchange(inode.host_watch_, 0);
  inode.believes_ = false;
  const auto it = watched_.find(number);
  if (number == 0 || it == watched_.end() || it->second != &inode) return;
  watched_.erase(it);
  ended_.push_back(number);
  ++coverage_;
}

void HostWatches::on_host_events(uint32_t) {
  const Ref<HostWatches> self(this);
  drain();
  give_up_ended();
}

void HostWatches::give_up_ended() {
  const std::vector<int> ended = std::exchange(ended_, {});
  if (ended.empty()) return;
  giving_up_++;
  {
    Unlocked unlocked;
    for (const int number : ended) (void)client_.unwatch(number);
  }
  giving_up_--;
}

void HostWatches::drain() {
  if (!instance_) return;
  alignas(inotify_event) char buffer[16384];
  for (ssize_t n; (n = ::read(instance_.get(), buffer, sizeof buffer)) > 0;) {
    for (size_t at = 0, end = static_cast<size_t>(n); end - at >= sizeof(inotify_event);) {
      inotify_event event;
      memcpy(&event, buffer + at, sizeof event);
      at += sizeof event;
      if (event.len > end - at) return;
      const std::string_view name(buffer + at, ::strnlen(buffer + at, event.len));
      at += event.len;
      tell(event, name);
    }
  }
}

namespace {

// What the host calls a file without a name: "#" and its inode number. 0: it is no such name.
uint64_t unnamed_inode(std::string_view name) {
  uint64_t number = 0;
  if (!name.starts_with('#')) return 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : 0;
}

}  // namespace

bool HostWatches::is_own(const GoferInode& watched, uint32_t events, std::string_view name) const {
  const GoferInode* subject = name.empty() ? &watched : watched.known_subject(name);
  const uint64_t unnamed = unnamed_inode(name);
  for (const OwnChange* change = own_; change; change = change->next_) {
    for (const OwnChange::Part& part : change->parts_) {
      if (!part.inode || !(part.events & events)) continue;
      if (unnamed != 0 && part.inode->is_unnamed(unnamed)) return true;
      if (unnamed != 0 && part.inode == &watched && part.name == OwnChange::kUnnamed) return true;
      if (part.name.empty() ? part.inode == subject : part.inode == &watched && part.name == name)
        return true;
    }
  }
  return false;
}

void HostWatches::tell(const inotify_event& event, std::string_view name) {
  if (event.mask & IN_Q_OVERFLOW) return tell_lost();
  const auto it = watched_.find(event.wd);
  if (it == watched_.end()) return;
  const Ref<GoferInode> inode(it->second);
  if (event.mask & (IN_IGNORED | IN_UNMOUNT)) {
    if (event.mask & IN_IGNORED) {
      inode->host_watch_ = 0;
      inode->believes_ = false;
      watched_.erase(it);
      inode->doubt_all();
      ++coverage_;
    }
    return;
  }
  const uint32_t events = event.mask & gofer::kWatchMask;
  if (is_own(*inode, events, name)) return;
  Ref<GoferInode> subject = inode;
  if (!name.empty()) {
    const auto known = inode->names_.find(name);
    const bool is_known = known != inode->names_.end();
    subject = is_known ? known->second.inode : Ref<GoferInode>();
    // Of a file that lost this name by us, and is still open.
    constexpr uint32_t kOfContents = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE;
    if (is_known && !subject && known->second.until != 0 && (events & kOfContents)) return;
  }
  if (!name.empty() && !subject) subject = inode->unnamed_file(unnamed_inode(name));
  if ((events & IN_CLOSE_WRITE) && subject && subject->was_own_close(!name.empty())) return;
  // Whoever hears of it looks at once: what was known before is old.
  for (GoferInode* changed : {subject.get(), inode.get()}) {
    if (!changed) continue;
    // What is being asked at this moment may be answered with what was before.
    ++changed->changes_;
    changed->coverage_ = 0;
    changed->forget_attr();
  }
  // What the host deletes shall not stay on its disk for our sake.
  if ((events & IN_DELETE) && subject) subject->drop_fds();
  if (name.empty()) {
    if (events & IN_DELETE_SELF) return notify::gone(*inode);
    return notify::inode(*inode, events);
  }
  // Contents of a file do not change what its name leads to.
  if (!(events & ~(IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE))) {
    return notify::child(*inode, name, event.mask & IN_ISDIR, events, 0);
  }
  inode->forget_name(name);
  const bool moves = events & (IN_MOVED_FROM | IN_MOVED_TO);
  notify::child(*inode, name, event.mask & IN_ISDIR, events,
                moves ? guest_cookie(event.cookie) : 0);
}

uint32_t HostWatches::guest_cookie(uint32_t host_cookie) {
  if (host_cookie != last_host_cookie_) {
    last_host_cookie_ = host_cookie;
    last_guest_cookie_ = notify::new_cookie();
  }
  return last_guest_cookie_;
}

void HostWatches::tell_lost() {
  std::vector<Ref<GoferInode>> all;
  for (const auto& [number, inode] : watched_) all.push_back(Ref<GoferInode>(inode));
  ++coverage_;
  for (const Ref<GoferInode>& inode : all) {
    inode->doubt_all();
    for (Watch* watch = inode->watches; watch; watch = watch->next) watch->owner.on_lost();
  }
}

OwnChange::OwnChange(HostWatches* watches, std::initializer_list<Part> parts) {
  if (!watches || !watches->active()) return;
  watches_ = watches;
  parts_ = parts;
  next_ = watches->own_;
  watches->own_ = this;
}

OwnChange::~OwnChange() {
  if (!watches_) return;
  watches_->drain();
  OwnChange** at = &watches_->own_;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
}

}  // namespace uks
