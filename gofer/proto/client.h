// The sentry's side of the gofer protocol: blocking calls over a pool of connections.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gofer/proto/messages.h"
#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks::gofer {

class Writer;
class Reader;

// Thread-safe. Every call blocks until the gofer answers: callers hold no lock (wrap them in
// `Unlocked`). One call uses one connection; more callers than connections wait for a free one.
// When the gofer is dead every call returns EIO at once, and those that wait are woken.
//
// Common errors: ENOENT (missing or absent by rule), EACCES (denied by rule, or by the host), EROFS
// (not writable by rule), ESTALE (the host replaced or moved the file since: walk again), EINVAL
// (bad name), ENAMETOOLONG, EIO (gofer dead), and whatever the host's file system says.
class GoferClient {
 public:
  explicit GoferClient(std::vector<UniqueFd> connections);
  ~GoferClient();
  GoferClient(const GoferClient&) = delete;
  GoferClient& operator=(const GoferClient&) = delete;

  // The root of the tree with this index in the gofer's configuration. ENOENT: no such tree.
  Result<NodeAttr> attach(uint32_t tree);
  // Looks up names one below the other (no "", ".", ".."; at most kMaxWalkNames) and returns id and
  // attributes of each. Links are not followed. Fails as a whole only if `start` is unusable.
  Result<WalkResult> walk(NodeId start, std::span<const std::string_view> names);
  // Looks up several names of one directory; an answer for each (at most kMaxWalkNames).
  Result<std::vector<Looked>> look_each(NodeId dir, std::span<const std::string_view> names);
  // One name. ENOENT if missing.
  Result<NodeAttr> lookup(NodeId dir, std::string_view name);
  Result<Attr> getattr(NodeId node);
  // Applies in the order owner, mode, size, times; returns the attributes afterwards.
  Result<Attr> setattr(NodeId node, const SetAttr& changes);
  // `flags`: O_RDONLY, O_WRONLY or O_RDWR, and O_TRUNC. Only regular files: EISDIR for directories,
  // ELOOP for links, ENXIO for others. Writing to a file with set-id bits: EPERM.
  Result<OpenedFile> open(NodeId node, int flags);
  // For files whose open() said kAttrIndirect. EACCES: not with this text.
  Result<size_t> write(NodeId node, uint64_t offset, std::string_view bytes);
  // What changes a directory's names can say, in `dir_after` if not null, what that left of the
  // directory's attributes; mode 0: the gofer could not tell.
  // Creates a regular file and opens it with `flags` (access mode, O_TRUNC; O_EXCL: EEXIST if it
  // exists). Never follows a link (ELOOP).
  Result<CreatedFile> create(NodeId dir, std::string_view name, uint32_t mode, int flags,
                             Owner owner = {}, Attr* dir_after = nullptr);
  // A regular file without a name (O_TMPFILE), open for reading and writing; link() names it.
  // EOPNOTSUPP: the host's file system has none.
  Result<CreatedFile> create_unnamed(NodeId dir, uint32_t mode, Owner owner = {});
  Result<NodeAttr> mkdir(NodeId dir, std::string_view name, uint32_t mode, Owner owner = {},
                         Attr* dir_after = nullptr);
  Result<NodeAttr> symlink(NodeId dir, std::string_view name, std::string_view target,
                           Owner owner = {}, Attr* dir_after = nullptr);
  // A new name for `node`. A file with a hidden name somewhere: EACCES.
  Result<NodeAttr> link(NodeId node, NodeId dir, std::string_view name, Attr* dir_after = nullptr);
  Result<void> unlink(NodeId dir, std::string_view name, Attr* dir_after = nullptr);
  Result<void> rmdir(NodeId dir, std::string_view name, Attr* dir_after = nullptr);
  // `flags`: RENAME_NOREPLACE, RENAME_EXCHANGE. Ids of what was moved stay valid. A directory that
  // leads to a rule's path: EBUSY; one for which other rules would hold at the new place: EXDEV.
  Result<void> rename(NodeId old_dir, std::string_view old_name, NodeId new_dir,
                      std::string_view new_name, uint32_t flags, Attr* old_dir_after = nullptr,
                      Attr* new_dir_after = nullptr);
  // Only S_IFREG, S_IFIFO, S_IFSOCK; devices: EPERM.
  Result<NodeAttr> mknod(NodeId dir, std::string_view name, uint32_t mode, Owner owner = {},
                         Attr* dir_after = nullptr);
  Result<std::string> readlink(NodeId node);
  // A page of a directory; start with cookie 0, which takes a snapshot of the names. ESTALE for a
  // cookie that is too old (start again). `with_ids`: every entry carries an id (and a lookup to
  // forget).
  Result<DirPage> readdir(NodeId dir, uint64_t cookie, bool with_ids);
  // All pages.
  Result<std::vector<DirEntry>> read_directory(NodeId dir, bool with_ids);
  Result<StatFs> statfs(NodeId node);
  // Extended attributes: only "user.…"; others EOPNOTSUPP (reading) or EPERM (changing).
  Result<std::string> getxattr(NodeId node, std::string_view name);
  Result<void> setxattr(NodeId node, std::string_view name, std::string_view value, int flags);
  Result<std::vector<std::string>> listxattr(NodeId node);
  Result<void> removexattr(NodeId node, std::string_view name);
  // For directories and for files that are not open here.
  Result<void> fsync(NodeId node, bool data_only);
  // Has the host tell of changes to a file, or of the names in a directory, by inotify events:
  // those of kWatchMask. `flags`: kWatch*. EPERM: its names might be hidden. ENOSPC and the like:
  // the host's watches have run out.
  Result<WatchedFile> watch(NodeId node, uint32_t flags);
  Result<void> unwatch(int watch);
  // Gives lookups back; any number, sent in batches. Errors do not matter.
  void forget(std::span<const Forget> forgets);
  void forget(NodeId node, uint64_t lookups = 1);

  bool dead() const { return dead_.load(std::memory_order_acquire); }

 private:
  struct Answer;
  // Sends a request and waits for its answer. `fd`: receives the donated descriptor, if one came.
  Result<Answer> call(Writer& request, bool wants_fd);
  Result<NodeAttr> call_for_node(Writer& request);
  Result<NodeAttr> call_for_new(Writer& request, Attr* dir_after);
  Result<void> call_for_dir(Writer& request, Attr* dir_after);
  Result<void> call_for_nothing(Writer& request);
  void die();

  const std::vector<UniqueFd> connections_;
  std::mutex mutex_;
  std::condition_variable free_changed_;
  std::vector<size_t> free_;  // indexes of idle connections, the last used on top
  std::atomic<uint32_t> next_seq_{1};
  std::atomic<bool> dead_{false};
};

}  // namespace uks::gofer
