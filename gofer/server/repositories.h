// Guards the parts of git repositories through which a command would run outside the sandbox later:
// hooks, configuration, and what leads git to another directory. Repositories that the sandbox
// makes are its own, but not where git on the host knows one already: what comes in the place of an
// old repository is guarded like it.
#pragma once
#include <atomic>
#include <deque>
#include <set>
#include <string>
#include <string_view>

#include "gofer/proto/messages.h"
#include "gofer/server/node.h"
#include "gofer/server/repository_memory.h"
#include "platform/base/result.h"

namespace uks::gofer {

class Repositories {
 public:
  enum class Change {
    kMakeDirectory,  // a new, empty one
    kMakeFile,       // a new file, by name or by link
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
  // A name in a directory: where that is, its descriptor, its attributes.
  struct Name {
    const Located& dir;
    int dir_fd;
    const Attr& dir_attr;
    const std::string& name;
  };

  // `trees` are those served; the guest may write to some of them. `give_away`: files can be given
  // to others.
  Repositories(bool protect, const std::deque<Tree>& trees, bool give_away)
      : protect_(protect), trees_(trees), give_away_(give_away) {}

  // Whether the path of a file is one that check() looks at: most are not.
  static bool concerns(std::string_view path);
  // Whether a change of such a name must be alone: what check() finds must hold until it is made.
  static bool is_decisive(std::string_view name);
  // Before the change: EACCES, with a line on stderr, if it is not allowed; EXDEV for directories
  // that can only be copied there. `target` is a link's text. What is taken away is remembered.
  Result<void> check(const Name& at, Change change, std::string_view target = {});
  // A directory that the sandbox has just made, and one that it has just removed (while `attr`'s
  // inode is held).
  void made(const Name& at, const Attr& attr);
  void removed(const Attr& attr) { memory_.removed(attr); }

  // Before the rename of a directory, for both sides of an exchange before any arrival: what git
  // knows in it is remembered as lost. Then whether it may come to its new name; EXDEV: only as a
  // copy.
  void leaves(const Name& at, const Attr& directory);
  Result<void> arrives(const Name& at, const Name& from);

  // Files whose text leads git to another directory (.git, commondir): the guest gets no descriptor
  // that writes to them, the gofer writes for it, and may_point() decides.
  bool is_pointer(const Name& at);
  Result<void> may_point(const Name& at, std::string_view before, std::string_view now);

  // Before a rename onto the name: whether the file is a git configuration, or may be one soon, and
  // its content counts. Then the caller lets may_replace() decide (of a current one), and puts a
  // copy there: the guest may hold a descriptor that writes to the original.
  enum class Configuration { kNone, kFuture, kCurrent };
  Configuration configuration(const Name& at);
  void copied(const Attr& file) { memory_.clean(file); }
  static std::string temporary_name(std::string_view name);
  // EACCES with a line if `now` makes git run what `before` did not.
  Result<void> may_replace(const Name& at, std::string_view before, std::string_view now);
  Result<void> refuse(const Name& at, std::string_view why);

  static constexpr size_t kMaxConfiguration = 1 << 20;  // bytes; a bigger one is refused
  static constexpr size_t kMaxPointer = 4096;

 private:
  static std::string path_of(const Name& at);
  bool is_old_git_directory(int fd, const Attr& attr);
  bool is_old_git_directory(const Tree& tree, std::string_view path);
  // Whether `path` is an old git directory or below one.
  bool is_in_git_directory(const Tree& tree, std::string_view path);
  // Whether what is made in the directory under `path` takes an old repository's place.
  bool is_guarded(const Name& at, RepositoryMemory::Place place);
  bool is_in_hooks(const Tree& tree, std::string_view path);
  Result<void> check_hooks(const Name& at, Change change);
  Result<void> check_dot_git(const Name& at, Change change, RepositoryMemory::Place place);
  // Before a directory that is not the sandbox's becomes a git directory: what lies there counts as
  // new.
  Result<void> check_new_git_directory(const Name& at);

  // Whether git on the host may use what `address` names, seen from the git directory `dir`.
  bool is_harmless_repository(const Located& dir, std::string_view address);
  bool is_harmless_path(const std::string& path);
  bool is_harmless_work_tree(const Located& dir, std::string_view path);

  const bool protect_;
  const std::deque<Tree>& trees_;
  const bool give_away_;
  RepositoryMemory memory_;
  std::atomic<int> lines_left_{20};
};

}  // namespace uks::gofer
