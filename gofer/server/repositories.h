// Guards the parts of git repositories through which a command would run outside the sandbox later:
// hooks, configuration, and what leads git to another directory. Every repository in a writable
// tree is guarded, whoever made it; what becomes one is checked when it does.
#pragma once
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "gofer/proto/messages.h"
#include "gofer/server/node.h"
#include "platform/base/result.h"

namespace uks::gofer {

class Repositories {
 public:
  enum class Change {
    kMakeDirectory,  // a new, empty one
    kMakeFile,       // a new file
    kMakeLink,       // a symbolic link comes: new or moved here
    kPutFile,        // a file that exists comes to this name
    kPutDirectory,   // likewise a directory
    kWrite,          // the contents of the file
    kMode,
    kMakeExecutable,
    kRemove,
    kRemoveDirectory,
    kMove,  // a name goes elsewhere
  };
  // A name in a directory: where that is, and its descriptor.
  struct Name {
    const Located& dir;
    int dir_fd;
    const std::string& name;
  };

  // `trees` are those served; the guest may write to some of them. `give_away`: files can be given
  // to others.
  Repositories(bool protect, const std::deque<Tree>& trees, bool give_away)
      : protect_(protect), trees_(trees), give_away_(give_away) {}
  // Once the trees are open; `trees` are the same. `host_root` stays the caller's.
  void start(std::deque<Tree>& trees, int host_root);

  // Whether check() looks at the contents and the mode of this file: of most it does not.
  bool concerns(const Located& file) const;
  // Whether the guest must not write to this file under any name.
  bool is_linked(const Attr& file) const;
  // Whether a change of such a name must be alone: what check() finds must hold until it is made.
  static bool is_decisive(std::string_view name);
  // Before the change: EACCES, with a line on stderr, if it is not allowed; EXDEV for a directory
  // that can only be made there. `target` is a link's text.
  Result<void> check(const Name& at, Change change, std::string_view target = {});
  // The same for a directory that is about to be renamed. EXDEV: it can only be copied.
  Result<void> may_move(const Name& from, const Name& to);

  // Files that the guest gets no descriptor for that writes to them: the gofer writes what
  // may_become() allows. Those that lead git to another directory (.git, commondir), and the
  // configuration of a git directory; of a file renamed onto that the gofer puts a copy there.
  bool is_indirect(const Name& at) const;
  bool is_configuration(const Name& at) const;
  Result<void> may_become(const Name& at, std::string_view before, std::string_view now);
  // Emptied, the file could not be filled again entry by entry.
  Result<void> may_truncate(const Name& at, uint64_t size);
  static std::string temporary_name(std::string_view name);
  Result<void> refuse(const Name& at, std::string_view why);

  static constexpr size_t kMaxText = 1 << 20;  // bytes of an indirect file; a bigger one is refused

 private:
  using Id = std::pair<uint64_t, uint64_t>;  // device, inode
  bool is_git_directory(const Tree& tree, std::string_view path) const;
  // Whether `name` in the directory `path` (or that itself, without a name) belongs to a git
  // directory.
  bool is_in_git_directory(const Tree& tree, std::string_view path,
                           std::string_view name = {}) const;
  bool is_in_hooks(const Tree& tree, std::string_view path) const;
  Result<void> check_hooks(const Name& at, Change change);
  Result<void> check_link(const Name& at, std::string_view target);
  Result<void> check_watched(const Name& at, Change change);
  // What lies in a directory counts as new: before it becomes a git directory, and its indirect
  // files are replaced by copies; or (`moving`) before it goes where other paths lead out of it.
  Result<void> check_contents(const Located& dir, int fd, bool moving);

  static std::string path_of(const Name& at);
  Result<void> may_configure(const Name& at, std::string_view before, std::string_view now,
                             bool moving);
  Result<void> may_point(const Name& at, std::string_view before, std::string_view now);
  // Why git on the host must not use the repository that `address` names; "" if it may.
  std::string objection_to(std::string_view address) const;
  bool is_harmless_work_tree(const Located& dir, std::string_view path) const;

  // repositories_watch.cc: what the repositories at the trees' roots use of the trees.
  bool lies_in_hooks(std::string_view root) const;
  void examine(const Tree& tree);
  void examine_hooks(const Tree& tree, int git, std::string_view base);
  void watch(const Tree& tree, std::string_view base, std::string_view path, bool refused);

  const bool protect_;
  const std::deque<Tree>& trees_;
  const bool give_away_;
  int host_root_ = -1;
  std::set<Id> linked_;                          // hard links; not changed after start()
  std::set<std::string, std::less<>> included_;  // absolute paths; likewise
  std::mutex mutex_;
  std::set<std::string, std::less<>> noticed_;  // absolute paths, until a line was written
  std::atomic<bool> any_noticed_{false};
  std::atomic<int> lines_left_{20};
};

// `path` seen from the absolute path `base`. None: it climbs out of a directory that may be a link
// by then.
std::optional<std::string> resolve_path(std::string_view base, std::string_view path);
// The part of `path` below the tree's root, if it is there.
std::optional<std::string> below_root(const Tree& tree, std::string_view path);

}  // namespace uks::gofer
