// Answers requests of the sentry. Nothing that it receives is trusted.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "gofer/proto/codec.h"
#include "gofer/server/config.h"
#include "gofer/server/directory.h"
#include "gofer/server/hidden_inodes.h"
#include "gofer/server/node.h"
#include "gofer/server/repositories.h"
#include "gofer/server/rules.h"

namespace uks::gofer {

class Server {
 public:
  // Opens the trees. Null: `problem` says why.
  static std::unique_ptr<Server> create(Config config, std::string& problem);

  // Answers requests on a connection until its peer closes it. Any number of threads, one a
  // connection.
  void serve(int socket);

  // Whether `fd` is one of the server's own descriptors (closing the others is the caller's work).
  std::vector<int> descriptors() const;
  // The directory descriptor through which inodes are re-opened: the only one plain openat may be
  // used on.
  int proc_fd() const { return proc_fd_.get(); }
  // Of the only inotify instance that files may be watched with.
  int inotify_fd() const { return inotify_.get(); }
  const std::deque<Tree>& trees() const { return trees_; }
  size_t node_count() { return nodes_.size(); }

 private:
  // A node's inode, found again under its path (or pinned), and its attributes.
  struct Handle {
    Located at;
    UniqueFd owned;
    int fd = -1;  // O_PATH: `owned`, or the tree's root, or the node's pinned descriptor
    Attr attr;
  };

  Server(std::vector<Rule> rules, const RepeatedRules& repeated, bool protect_repositories);
  bool open_trees(const Config& config, std::string& problem);

  // ENFILE in place of an answer whose descriptor the host does not let through.
  static Result<void> send_answer(int socket, const Writer& out, const UniqueFd& fd);
  // Takes one request apart and calls its handler. The answer goes to `out`, `fd`.
  void answer(std::string_view request, Writer& out, UniqueFd& fd);
  Result<void> dispatch(Op op, Reader& in, Writer& out, UniqueFd& fd);

  // ESTALE: the host moved or replaced it.
  Result<Handle> find(NodeId id);
  // The same for a directory. ENOTDIR.
  Result<Handle> find_directory(NodeId id);
  // The rules' state of a name that is about to be made, removed or replaced. EROFS, EACCES.
  Result<RuleState> changeable_child(const Handle& dir, std::string_view name) const;
  // Errors unless the inode may be opened for data. `write`: also truncation and changes of
  // attributes.
  Result<void> check_data_access(const Handle& file, bool write);
  Result<void> check_changeable(const Handle& file) const;
  // Errors if a name of `dir`, or the contents or mode of a file, is a repository's to keep.
  static Repositories::Name named(const Handle& dir, const std::string& name) {
    return {dir.at, dir.fd, name};
  }
  Result<void> check_repository(const Handle& file, Repositories::Change change);
  // What has none is no repository's; when it gets one, that is looked at.
  static bool has_no_name(const Handle& file) { return file.at.detached && file.attr.nlink == 0; }
  // The same for `what`, now under `old_name` in `old_dir`, that is renamed to `name` in `dir`.
  Result<void> check_arrival(const Handle& dir, const std::string& name, const Attr& what,
                             const Handle& old_dir, const std::string& old_name);
  // The directory that the file is in. ENOENT: a tree's root.
  Result<Handle> parent_of(const Handle& file, std::string& name);
  // Whether the guest gets no descriptor that writes to the file.
  bool is_indirect(const Handle& file);
  // Errors if a repository's file must not be cut off.
  Result<void> check_truncation(const Handle& file);
  // A rename onto git's configuration: checks it and puts a copy there.
  Result<void> replace_configuration(const Handle& from, const std::string& source,
                                     const Handle& to, const std::string& target);
  // Opens exactly the inode of an O_PATH descriptor, with these flags.
  Result<UniqueFd> open_inode(int path_fd, int flags) const;
  std::string inode_name(int path_fd) const;  // relative to proc_fd_
  Attr shown(Attr attr, const RuleState& rules, const Tree& tree) const;
  // Enters a file that was just made under `name`, after giving it to `owner`. The caller holds
  // names_lock_ alone: nothing else has come to the name since.
  Result<void> enter_new(const Handle& dir, const std::string& name, const RuleState& rules,
                         Owner owner, Writer& out);
  // `fd`: the file itself, where there may be another under the name by now; or -1.
  Result<void> give_away(const Handle& dir, const std::string& name, int fd, Owner owner);
  UniqueFd pin_for(const Handle& dir, const std::string& name);
  // The attributes of a directory whose names were just changed: the client need not ask for them.
  void put_changed(const Handle& dir, Writer& out, uint32_t flags = 0) const;

  struct Step {
    Ref<Node> node;
    Attr attr;
    RuleState rules;
    UniqueFd fd;  // O_PATH, if it had to be opened
  };
  Result<Step> look_up(const Ref<Node>& dir_node, const RuleState& dir_rules, int dir_fd,
                       const Attr& dir_attr, const std::string& name);

  // handlers_lookup.cc
  Result<void> attach(Reader& in, Writer& out);
  static std::string target_of(int dir_fd, const std::string& name, const Step& link);
  Result<void> walk(Reader& in, Writer& out);
  Result<void> look_each(Reader& in, Writer& out);
  Result<void> getattr(Reader& in, Writer& out);
  Result<void> readlink(Reader& in, Writer& out);
  Result<void> readdir(Reader& in, Writer& out);
  Result<void> statfs(Reader& in, Writer& out);
  Result<void> forget(Reader& in);
  // handlers_file.cc
  Result<void> open(Reader& in, Writer& out, UniqueFd& fd);
  Result<void> create(Reader& in, Writer& out, UniqueFd& fd);
  Result<void> create_unnamed(Reader& in, Writer& out, UniqueFd& fd);
  Result<void> write(Reader& in, Writer& out);
  Result<void> setattr(Reader& in, Writer& out);
  Result<void> getxattr(Reader& in, Writer& out);
  Result<void> setxattr(Reader& in);
  Result<void> listxattr(Reader& in, Writer& out);
  Result<void> removexattr(Reader& in);
  Result<void> fsync(Reader& in);
  // handlers_watch.cc
  Result<void> watch(Reader& in, Writer& out, UniqueFd& fd);
  Result<void> unwatch(Reader& in);
  // handlers_names.cc
  Result<void> mkdir(Reader& in, Writer& out);
  Result<void> symlink(Reader& in, Writer& out);
  Result<void> link(Reader& in, Writer& out);
  Result<void> unlink(Reader& in, Writer& out, bool directory);
  Result<void> rename(Reader& in, Writer& out);
  Result<void> mknod(Reader& in, Writer& out);
  Result<void> check_move(const RuleState& from, const RuleState& to, bool is_directory) const;

  const RuleSet rules_;
  std::deque<Tree> trees_;  // not changed after create()
  std::unique_ptr<HiddenInodes> hidden_;
  const bool can_give_away_;
  Repositories repositories_;
  UniqueFd proc_fd_;  // /proc/self/fd
  // Where the inotify instance goes when somebody watches; until then a placeholder, since the
  // filter ties calls to the number. A user has 128 instances, for all programs.
  UniqueFd inotify_;
  bool watches_ = false;
  std::mutex watching_;  // a leaf: watches_
  NodeTable nodes_;
  Listings listings_;
  // Held shared by whatever resolves a path, exclusively by renames: the paths of nodes and the
  // host's names change together. Taken before NodeTable's and Listings' own locks.
  std::shared_mutex names_lock_;
  // Holds it for the making of a name: alone if the repositories' checks need that.
  class NameLock {
   public:
    NameLock(std::shared_mutex& mutex, bool alone) : mutex_(mutex), alone_(alone) {
      alone_ ? mutex_.lock() : mutex_.lock_shared();
    }
    ~NameLock() { alone_ ? mutex_.unlock() : mutex_.unlock_shared(); }
    NameLock(const NameLock&) = delete;
    NameLock& operator=(const NameLock&) = delete;

   private:
    std::shared_mutex& mutex_;
    const bool alone_;
  };
};

}  // namespace uks::gofer
