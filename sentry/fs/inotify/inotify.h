// inotify(7): a queue of what happened to the files that an instance watches.
#pragma once
#include <deque>
#include <map>
#include <memory>

#include "sentry/task/page_quota.h"
#include "sentry/vfs/file.h"
#include "sentry/vfs/notify.h"

namespace uks {

class InotifyFile final : public File, private Watcher {
 public:
  // As in /proc/sys/fs/inotify. All but the first hold for the sandbox, whoever asks.
  static constexpr size_t kMaxEvents = 16384;
  static constexpr size_t kMaxInstances = 128;
  static constexpr size_t kMaxWatches = 65536;

  // `quota`: what waits to be read is charged there. EMFILE: there are too many.
  static Result<Ref<InotifyFile>> make(int flags, Ref<Inode> inode, Ref<PageQuota> quota);
  InotifyFile(int flags, Ref<Inode> inode, Ref<PageQuota> quota);
  ~InotifyFile() override;

  Inode* inode() const override { return inode_.get(); }
  std::string anonymous_name() const override { return "anon_inode:inotify"; }
  FileKind kind() const override { return FileKind::kInotify; }
  // Whole events. EINVAL for a buffer with no room for the first.
  Result<size_t> read(Task& task, IoSink& sink) override;
  Result<int64_t> seek(Task&, int64_t, int) override { return pos; }  // noop_llseek()
  // FIONREAD.
  Result<int64_t> ioctl(Task& task, uint32_t request, uint64_t arg) override;
  uint32_t poll_events() override;
  WaitQueue* wait_queue() override { return &queue_; }
  std::string fdinfo() const override;

  // inotify_add_watch(2): the watch descriptor. EEXIST with IN_MASK_CREATE, ENOSPC.
  Result<int> watch(Ref<Inode> inode, uint32_t mask);
  // EINVAL: there is no such watch.
  Result<void> unwatch(int number);

 private:
  struct Event {
    int watch;
    uint32_t mask;
    uint32_t cookie;
    std::string name;
    // Of the name as it is read: with its zero bytes, a multiple of the header's.
    size_t padded_name() const;
    size_t bytes() const;
  };

  void on_event(Watch& watch, uint32_t mask, uint32_t cookie, std::string_view name) override;
  void on_inode_gone(Watch& watch) override;
  void on_lost() override { queue({-1, IN_Q_OVERFLOW, 0, {}}); }
  void queue(Event event);
  void end(Watch& watch);
  void charge();

  Ref<Inode> inode_;
  Ref<PageAccount> account_;
  size_t held_ = 0;  // bytes of memory that the events take
  std::map<int, std::unique_ptr<Watch>> watches_;
  int last_number_ = 0;
  std::deque<Event> events_;
  WaitQueue queue_;
};

}  // namespace uks
