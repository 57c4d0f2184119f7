// Guards the parts of git repositories through which a command would run outside the sandbox later: hooks,
// configuration, and what leads git to another directory. Repositories that the sandbox makes are its own.
#pragma once
#include <cstdint>
#include <deque>
#include <mutex>
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
    kMake,     // a new name, or one whose file is replaced or written
    kRemove,   // a name goes
    kMove,     // a name goes elsewhere
  };

  // `trees` are those served; the guest may write to some of them.
  Repositories(bool protect, const std::deque<Tree>& trees) : protect_(protect), trees_(trees) {}

  // Whether the path of a file is one that check() looks at: most are not.
  static bool concerns(std::string_view path);
  // A directory that the sandbox has just made. After kMaxMade of them the next count as old.
  void made(const Attr& directory);
  // EACCES, with a line on stderr, if the change of `name` in `dir` (a directory's descriptor) is not
  // allowed. What is there may be changed or taken away, what is not may be made.
  Result<void> check(const Located& dir, int dir_fd, const Attr& dir_attr, const std::string& name, Change change);
  // Before a rename onto `name` in `dir`: whether the file is a git configuration whose new content counts.
  // Then the caller lets `may_replace` decide, and puts a copy there: the guest may hold a descriptor that
  // writes to the original.
  bool is_configuration(const Located& dir, int dir_fd, const Attr& dir_attr, const std::string& name);
  // EACCES with a line if `now` makes git run what `before` did not.
  Result<void> may_replace(const Located& dir, const std::string& name, std::string_view before, std::string_view now);

  static constexpr size_t kMaxMade = 1'000'000;
  static constexpr size_t kMaxConfiguration = 1 << 20;  // bytes; a bigger one is refused

 private:
  using Id = std::pair<uint64_t, uint64_t>;  // device, inode
  bool is_old_git_directory(int fd, const Attr& attr);
  bool is_old_git_directory(const Tree& tree, std::string_view path);
  bool is_made(const Attr& directory);
  // Whether an old git directory's hooks are above `path`.
  bool is_in_hooks(const Tree& tree, std::string_view path);
  // Whether git on the host may use what `address` names, seen from the git directory `dir`.
  bool is_harmless_repository(const Located& dir, std::string_view address);
  bool is_harmless_path(const std::string& path);
  Result<void> refuse(const Located& dir, std::string_view name, std::string_view why);

  const bool protect_;
  const std::deque<Tree>& trees_;
  std::mutex mutex_;
  std::set<Id> made_;
  std::set<Id> lost_;  // directories whose old .git file was removed: a new one would lead elsewhere
  unsigned lines_left_ = 20;
};

}  // namespace uks::gofer
