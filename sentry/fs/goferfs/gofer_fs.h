// goferfs: a tree of the host, through the gofer. Names and attributes are believed for a few
// milliseconds; data moves through donated descriptors, never through the gofer.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "gofer/proto/client.h"
#include "sentry/fs/goferfs/host_watches.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/vfs/dir_file.h"
#include "sentry/vfs/inode.h"

namespace uks {

class GoferInode;

// One donated descriptor. Open files hold it; the inode caches it.
class HostFd : public RefCounted {
 public:
  // `indirect`: it only reads; the gofer writes for it. `written`: whose file it writes to; it is
  // told of the end, unless disown() came before.
  explicit HostFd(UniqueFd fd, bool indirect = false, GoferInode* written = nullptr)
      : fd_(std::move(fd)), indirect_(indirect), written_(written) {}
  ~HostFd() override;
  void disown() { written_ = nullptr; }
  int get() const { return fd_.get(); }
  bool indirect() const { return indirect_; }

 private:
  UniqueFd fd_;
  const bool indirect_;
  GoferInode* written_;
};

class GoferFs : public FileSystem {
 public:
  // The trees of one host device have one device number inside, too: git stops at a change of it.
  uint64_t dev() const override { return device_ ? device_->guest_dev : FileSystem::dev(); }
  // `ttl`: how long names and attributes are believed, in nanoseconds. Host-side edits show after
  // at most twice that.
  // `watches`: who tells of changes on the host's side; may be null.
  GoferFs(gofer::GoferClient& client, uint32_t tree, MonotonicNs ttl,
          Ref<HostWatches> watches = nullptr)
      : client_(client), tree_(tree), ttl_(ttl), watches_(std::move(watches)) {}
  const char* type() const override { return "uks"; }
  Result<struct statfs> statfs() override;
  MonotonicNs name_ttl() const override { return ttl_; }

  // The tree's root. Blocks on the gofer; drops the kernel lock meanwhile.
  Result<Ref<GoferInode>> attach();

 private:
  friend class GoferInode;
  friend class GoferFile;
  // Identity of a host file: device, inode number, birth time (numbers are re-used).
  using Key = std::tuple<uint64_t, uint64_t, int64_t, uint32_t>;
  static Key key_of(const gofer::Attr& a) { return {a.dev, a.ino, a.btime.sec, a.btime.nsec}; }

  // Runs `f(client)` without the kernel lock.
  template <typename F>
  auto rpc(F&& f) {
    std::vector<gofer::Forget> batch;
    if (forgets_.size() >= kForgetBatch || (!forgets_.empty() && monotonic_now() >= forget_by_)) {
      batch.swap(forgets_);
      forget_by_ = kNever;
    }
    Unlocked unlocked;
    if (!batch.empty()) client_.forget(batch);
    return f(client_);
  }
  // The inode of an answer: the one already known, or a new one.
  // `asked`: attr_changes_ when the question was put. Attributes that changed since are older than
  // what is known.
  Ref<GoferInode> inode_for(const gofer::NodeAttr& node, uint64_t asked);
  uint64_t guest_ino(const gofer::Attr& a);
  // A directory's cache got one more name. Keeps all of them bounded: a clock over directories.
  void note_name(GoferInode& dir);
  void evict_names();
  // `count` names of `dir` are gone.
  void uncount_names(GoferInode& dir, size_t count);
  // Keeps the number of cached descriptors bounded.
  void note_fd(GoferInode& inode);
  // The file has no name any more: nothing but its open files may keep it, or the host's disk stays
  // full.
  void drop_fds(GoferInode& inode);
  // Lookups to give back with a later call; those of a file without a name soon, because the gofer
  // keeps such files open.
  void give_back(gofer::NodeId id, uint64_t lookups, bool soon);
  // Gives all of them back now. Drops the kernel lock meanwhile.
  void flush_forgets();

  static constexpr size_t kMaxNames = 100'000;
  static constexpr size_t kEvictNames = 1000;
  static constexpr size_t kMaxFds = 2048;
  static constexpr size_t kForgetBatch = 256;
  static constexpr MonotonicNs kForgetDelay = 100'000'000;
  static constexpr MonotonicNs kNever = INT64_MAX;

  gofer::GoferClient& client_;
  uint32_t tree_;
  MonotonicNs ttl_;
  Ref<HostWatches> watches_;
  Ref<GoferInode> root_;
  std::map<Key, GoferInode*> inodes_;
  uint64_t attr_changes_ = 0;  // of all inodes
  struct Device {
    uint64_t guest_dev;
    std::vector<uint64_t> host_devs;  // met so far in trees of the first one
  };
  static std::shared_ptr<Device> device_of(uint64_t host_dev, uint64_t guest_dev);
  std::shared_ptr<Device> device_;  // since attach()
  std::vector<gofer::Forget> forgets_;
  MonotonicNs forget_by_ = kNever;
  size_t names_ = 0;                   // in the caches of all directories
  std::list<GoferInode*> named_dirs_;  // with cached names; those seen longest ago first
  std::vector<Ref<GoferInode>>
      with_fds_;  // a clock of inodes that cache descriptors; may hold null
  size_t clock_hand_ = 0;
};

class GoferInode : public Inode {
 public:
  GoferInode(GoferFs& fs, gofer::NodeId id, const gofer::Attr& attr);
  ~GoferInode() override;

  uint32_t type() const override { return host_.mode & S_IFMT; }
  Result<Attr> getattr() override;
  Result<void> setattr(const SetAttr& changes) override;
  Result<Ref<Inode>> find(std::string_view name) override;
  void doubt(std::string_view name) override;
  void prefetch(std::span<const std::string_view> names) override;
  void prefetch_each(std::span<const std::string_view> names) override;
  Result<Ref<Inode>> mknod(std::string_view name, const NewNode& node) override;
  Result<Ref<Inode>> mkdir(std::string_view name, const NewNode& node) override;
  Result<Ref<Inode>> symlink(std::string_view name, std::string_view target,
                             const NewNode& node) override;
  Result<void> link(std::string_view name, Inode& inode) override;
  Result<void> unlink(std::string_view name, Inode& child) override;
  Result<void> rmdir(std::string_view name, Inode& child) override;
  Result<void> rename(std::string_view old_name, Inode& source, Inode& new_dir,
                      std::string_view new_name, Inode* target, unsigned flags) override;
  Result<Ref<Inode>> create_unnamed(const NewNode& node) override;
  Result<std::vector<DirEntry>> list() override;
  Result<std::string> link_text() override;
  Result<Ref<File>> open(Task& task, const Path& path, int flags) override;
  Result<size_t> read_at(int64_t pos, std::span<char> buffer) override;
  Result<struct statfs> statfs() override;
  Result<std::string> getxattr(std::string_view name) override;
  Result<void> setxattr(std::string_view name, std::string_view value, int flags) override;
  Result<void> removexattr(std::string_view name) override;
  Result<std::vector<std::string>> listxattr() override;

  // A descriptor of the file's data: read-only, or read and write.
  Result<Ref<HostFd>> acquire(bool writable);
  void forget_attr() {
    attr_until_ = 0;
    note_attr_change();
  }
  void begin_watch() override;
  void end_watch() override;
  // A descriptor of ours that wrote is being closed: the host will tell watchers of that.
  void note_own_close();
  // Writes through the gofer.
  Result<size_t> write_indirectly(int64_t pos, std::string_view bytes);

 private:
  friend class GoferFs;
  friend class GoferFile;
  friend class HostWatches;
  HostWatches* watches_of_fs() const { return gofer_fs().watches_.get(); }
  // The same, if somebody inside wants to hear of changes to contents.
  HostWatches* teller() const {
    HostWatches* host = watches_of_fs();
    return host && host->tells() ? host : nullptr;
  }
  // Whether the closing that the host tells of is one of ours. `by_name`: the directory's event.
  bool was_own_close(bool by_name);
  // `target`: a link's, as the gofer said with the node; may be empty.
  void note_target(std::string target);
  struct Name {
    Ref<GoferInode> inode;  // null: absent
    MonotonicNs until = 0;
  };
  static bool holds(const Name& known);
  // What the name in this directory leads to, as far as is known; or null.
  const GoferInode* known_subject(std::string_view name) const;
  // A file without a name that we made, by the host's inode number; or null.
  Ref<GoferInode> unnamed_file(uint64_t host_ino) const;
  bool is_unnamed(uint64_t host_ino) const { return is_linkable && host_.ino == host_ino; }
  void drop_fds() { gofer_fs().drop_fds(*this); }
  GoferFs& gofer_fs() const { return static_cast<GoferFs&>(fs()); }
  void update(const gofer::Attr& attr);
  void note_attr_change() { attr_version_ = ++gofer_fs().attr_changes_; }
  Attr to_attr() const;
  void set_name(std::string_view name, Ref<GoferInode> inode);
  // The same, believed until the host tells of a change, if it tells of this directory. For answers
  // after which, up to now, no change of the name was heard of.
  void set_known_name(std::string_view name, Ref<GoferInode> inode);
  // The host has changed what the name leads to.
  void forget_name(std::string_view name);
  // The host has changed nobody knows what.
  void doubt_all();
  // Here the host tells of changes: reads what it has told.
  bool is_covered();
  // This file's attributes are believed while the host tells of changes in the directory where it
  // was just looked up.
  void cover(const GoferInode& dir);
  // Names are looked up here one by one: has the host tell of changes, and learns all of them.
  void learn_names();
  Result<std::vector<DirEntry>> list_known() const;
  // Null inside: it is known that there is no such name. Nothing: it has to be asked for.
  std::optional<Ref<GoferInode>> known_name(std::string_view name);
  std::unexpected<Errno> not_made(std::string_view name, Errno error);
  // Becomes the inode of another host file: its name has a copy now.
  void rebind(const gofer::NodeAttr& node);
  // The name was taken out of this directory by us; changed() comes after.
  void name_gone(std::string_view name, Inode& child);
  // A name was made here by us, by a call that began at `version`.
  Result<Ref<Inode>> made(std::string_view name, const gofer::NodeAttr& node, uint64_t version,
                          const gofer::Attr& after);
  // This directory's names were changed by us; `after`: its attributes then, which hold unless
  // there were other changes since `version`.
  void changed(uint64_t version, const gofer::Attr& after);

  gofer::NodeId id_;
  uint64_t lookups_ = 1;
  GoferFs::Key key_;
  gofer::Attr host_;
  uint64_t ino_;
  MonotonicNs attr_until_ = 0;
  // GoferFs::attr_changes_ at the last change that is known of, by whomever: an answer asked for
  // before that is old.
  uint64_t attr_version_ = 0;
  uint32_t changes_ = 0;  // likewise for names
  std::unordered_map<std::string, Name, StringHash, std::equal_to<>> names_;
  std::list<GoferInode*>::iterator
      named_position_;       // in GoferFs::named_dirs_, while `names_` is not empty
  bool names_used_ = false;  // since the clock came by
  std::optional<std::string> link_target_;
  Ref<HostFd> read_fd_, write_fd_;
  size_t clock_slot_ = 0;
  bool in_clock_ = false;
  int host_watch_ = 0;      // the host's watch descriptor, or 0
  bool believes_ = false;   // by that watch the host tells of all changes: a local file system
  bool no_watch_ = false;   // it cannot
  bool complete_ = false;   // a name that is not in names_ does not exist
  uint8_t questions_ = 0;   // that were asked about single names
  uint64_t coverage_ = 0;   // HostWatches::coverage() when cover() was called; 0: not covered
  bool had_links_ = false;  // more names than one: its id may be that of one that is gone
  bool id_lost_ = false;    // leads nowhere: its name has to be looked up again
  bool is_mapped_ = false;  // for writing, shared: it changes without a call
  uint16_t own_closes_[2] = {};
  MonotonicNs own_close_at_ = 0;
};

class GoferFile final : public SeekableFile {
 public:
  GoferFile(Path path, int flags, Ref<GoferInode> inode, Ref<HostFd> fd)
      : SeekableFile(std::move(path), flags), inode_(std::move(inode)), fd_(std::move(fd)) {}
  Inode* inode() const override { return File::inode() ? File::inode() : inode_.get(); }
  Result<size_t> pread(Task& task, IoSink& sink, int64_t pos) override;
  Result<size_t> pwrite(Task& task, IoSource& source, int64_t pos) override;
  Result<size_t> write(Task& task, IoSource& source) override;
  Result<MappableFd> mappable_fd(Task& task, int prot, bool shared) override;
  Result<void> truncate(Task& task, int64_t size) override;
  Result<void> allocate(Task& task, int mode, int64_t offset, int64_t length) override;
  Result<void> sync(Task& task, bool data_only) override;

 protected:
  Result<uint64_t> file_size() override;
  Result<int64_t> seek_data_hole(int64_t offset, bool hole, int64_t size) override;

 private:
  Ref<GoferInode> inode_;
  Ref<HostFd> fd_;
};

}  // namespace uks
