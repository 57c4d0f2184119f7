// The server's frame: opening trees, taking requests apart, and the checks that handlers share.
#include "gofer/server/server.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

#include <fmt/format.h>

#include "gofer/proto/channel.h"
#include "gofer/server/host_fs.h"
#include "platform/base/log.h"

namespace uks::gofer {

Server::Server(std::vector<Rule> rules, const RepeatedRules& repeated, bool protect_repositories)
    : rules_(std::move(rules), repeated),
      can_give_away_(::geteuid() == 0),
      repositories_(protect_repositories, trees_, can_give_away_) {}

std::unique_ptr<Server> Server::create(Config config, std::string& problem) {
  std::unique_ptr<Server> server(
      new Server(std::move(config.rules), config.repeated, config.protect_repositories));
  if (!server->open_trees(config, problem)) return nullptr;
  return server;
}

bool Server::open_trees(const Config& config, std::string& problem) {
  UniqueFd host_root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  proc_fd_ = UniqueFd(::open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!host_root || !proc_fd_) {
    problem =
        fmt::format("cannot open {}: {}", host_root ? "/proc/self/fd" : "/", std::strerror(errno));
    return false;
  }
  for (const TreeConfig& tree_config : config.trees) {
    Tree tree;
    tree.root = tree_config.root;
    tree.writable = tree_config.writable;
    // The keeper names real paths; a link here was put there since, so it is not followed.
    std::string_view path = tree.root;
    while (!path.empty() && path[0] == '/') path.remove_prefix(1);
    auto fd = open_path_beneath(host_root.get(), path);
    if (!fd) {
      problem = fmt::format("cannot open {}: {}", tree.root, std::strerror(fd.error().value));
      return false;
    }
    tree.fd = std::move(*fd);
    tree.kernel_interface = is_kernel_interface(tree.fd.get());
    tree.rules = rules_.at(tree.root, tree.writable ? Action::kRw : Action::kRo);
    trees_.push_back(std::move(tree));
  }
  inotify_ = UniqueFd(::fcntl(proc_fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!inotify_) {
    problem = fmt::format("no descriptor is left: {}", std::strerror(errno));
    return false;
  }
  repositories_.start(trees_, host_root.get());
  hidden_ = std::make_unique<HiddenInodes>(rules_, std::move(host_root));
  return true;
}

std::vector<int> Server::descriptors() const {
  std::vector<int> fds{proc_fd_.get(), hidden_->root_fd(), inotify_.get()};
  for (const Tree& tree : trees_) fds.push_back(tree.fd.get());
  return fds;
}

void Server::serve(int socket) {
  auto buffer = std::make_unique_for_overwrite<char[]>(kMaxMessage);
  while (true) {
    auto packet = receive_packet(socket, {buffer.get(), kMaxMessage});
    if (!packet || packet->bytes.empty()) return;
    Writer out;
    UniqueFd fd;
    answer(packet->bytes, out, fd);
    if (!send_answer(socket, out, fd)) return;
  }
}

Result<void> Server::send_answer(int socket, const Writer& out, const UniqueFd& fd) {
  // The host bounds how many descriptors of one user are in messages at a time: another program of
  // the user may be about to take its own out.
  constexpr int kTries = 50;
  constexpr timespec kPause{0, 5'000'000};
  for (int i = 0; i < kTries; ++i) {
    const auto sent = send_packet(socket, out.bytes(), fd.get());
    if (sent || !fd || (sent.error() != ETOOMANYREFS && sent.error() != ENOBUFS)) return sent;
    ::nanosleep(&kPause, nullptr);
  }
  Writer refusal;
  refusal.u32(Reader(out.bytes()).u32());  // the number of the request
  refusal.i32(ENFILE);
  return send_packet(socket, refusal.bytes());
}

void Server::answer(std::string_view request, Writer& out, UniqueFd& fd) {
  Reader in(request);
  Op op = static_cast<Op>(in.u32());
  uint32_t seq = in.u32();
  out.u32(seq);
  out.i32(0);
  Result<void> result = in.ok() ? dispatch(op, in, out, fd) : Err(EINVAL);
  if (result && out.overflow()) result = Err(EIO);
  if (result) return;
  fd.reset();
  out.clear();
  out.u32(seq);
  out.i32(result.error().value);
}

Result<void> Server::dispatch(Op op, Reader& in, Writer& out, UniqueFd& fd) {
  switch (op) {
    case Op::kAttach:
      return attach(in, out);
    case Op::kWalk:
      return walk(in, out);
    case Op::kLookEach:
      return look_each(in, out);
    case Op::kGetattr:
      return getattr(in, out);
    case Op::kSetattr:
      return setattr(in, out);
    case Op::kOpen:
      return open(in, out, fd);
    case Op::kWrite:
      return write(in, out);
    case Op::kCreate:
      return create(in, out, fd);
    case Op::kCreateUnnamed:
      return create_unnamed(in, out, fd);
    case Op::kMkdir:
      return mkdir(in, out);
    case Op::kSymlink:
      return symlink(in, out);
    case Op::kLink:
      return link(in, out);
    case Op::kUnlink:
      return unlink(in, out, false);
    case Op::kRmdir:
      return unlink(in, out, true);
    case Op::kRename:
      return rename(in, out);
    case Op::kMknod:
      return mknod(in, out);
    case Op::kReadlink:
      return readlink(in, out);
    case Op::kReaddir:
      return readdir(in, out);
    case Op::kStatfs:
      return statfs(in, out);
    case Op::kGetxattr:
      return getxattr(in, out);
    case Op::kSetxattr:
      return setxattr(in);
    case Op::kListxattr:
      return listxattr(in, out);
    case Op::kRemovexattr:
      return removexattr(in);
    case Op::kFsync:
      return fsync(in);
    case Op::kForget:
      return forget(in);
    case Op::kWatch:
      return watch(in, out, fd);
    case Op::kUnwatch:
      return unwatch(in);
  }
  return Err(EOPNOTSUPP);
}

Result<Server::Handle> Server::find(NodeId id) {
  Handle handle;
  handle.at = TRY(nodes_.locate(id, /*allow_detached=*/true));
  if (handle.at.detached) {
    handle.fd = handle.at.pinned;
  } else if (handle.at.path.empty()) {
    handle.fd = handle.at.tree().fd.get();
  } else {
    auto fd = open_path_beneath(handle.at.tree().fd.get(), handle.at.path);
    if (!fd) {
      switch (fd.error().value) {
        case ENOENT:
        case ENOTDIR:
        case ELOOP:
        case EXDEV:
          return Err(ESTALE);
        default:
          return Err(fd.error());
      }
    }
    handle.owned = std::move(*fd);
    handle.fd = handle.owned.get();
  }
  handle.attr = TRY(stat_at(handle.fd, ""));
  if (!handle.at.node->is(handle.attr)) return Err(ESTALE);
  return handle;
}

Result<Server::Handle> Server::find_directory(NodeId id) {
  Handle handle = TRY(find(id));
  if (!handle.attr.is_directory()) return Err(ENOTDIR);
  if (handle.at.detached) return Err(ENOENT);  // as Linux answers in a removed directory
  return handle;
}

Result<RuleState> Server::changeable_child(const Handle& dir, std::string_view name) const {
  if (int bad = check_name(name)) return Err(bad);
  RuleState state = rules_.child(dir.at.rules, name);
  switch (state.action) {
    case Action::kRw:
      if (!dir.at.tree().writable) return Err(EROFS);
      return state;
    case Action::kRo:
      return Err(EROFS);
    case Action::kDeny:
    case Action::kAbsent:
      break;
  }
  return Err(EACCES);
}

Result<void> Server::check_changeable(const Handle& file) const {
  if (file.at.rules.action == Action::kDeny) return Err(EACCES);
  if (!file.at.may_write()) return Err(EROFS);
  return {};
}

Result<Server::Handle> Server::parent_of(const Handle& file, std::string& name) {
  if (file.at.detached || file.at.path.empty()) return Err(ENOENT);
  const size_t slash = file.at.path.rfind('/');
  const bool in_root = slash == std::string::npos;
  Handle parent;
  parent.at = file.at;
  parent.at.path = in_root ? std::string() : file.at.path.substr(0, slash);
  name = in_root ? file.at.path : file.at.path.substr(slash + 1);
  parent.owned = TRY(open_path_beneath(file.at.tree().fd.get(), parent.at.path));
  parent.fd = parent.owned.get();
  parent.attr = TRY(stat_at(parent.fd, ""));
  return parent;
}

Result<void> Server::check_repository(const Handle& file, Repositories::Change change) {
  if (has_no_name(file)) return {};
  const bool linked = change == Repositories::Change::kWrite && repositories_.is_linked(file.attr);
  if (!linked && !repositories_.concerns(file.at)) return {};
  std::string name;
  const Handle parent = TRY(parent_of(file, name));
  if (linked) return repositories_.refuse(named(parent, name), "git uses it under another name");
  return repositories_.check(named(parent, name), change);
}

bool Server::is_indirect(const Handle& file) {
  if (has_no_name(file) || !repositories_.concerns(file.at)) return false;
  std::string name;
  const auto parent = parent_of(file, name);
  return parent && repositories_.is_indirect(named(*parent, name));
}

Result<void> Server::check_truncation(const Handle& file) {
  if (has_no_name(file) || !repositories_.concerns(file.at)) return {};
  std::string name;
  const Handle parent = TRY(parent_of(file, name));
  return repositories_.may_truncate(named(parent, name), file.attr.size);
}

Result<void> Server::check_data_access(const Handle& file, bool write) {
  if (file.at.rules.action == Action::kDeny || file.at.rules.action == Action::kAbsent)
    return Err(EACCES);
  if (write && !file.at.may_write()) return Err(EROFS);
  if (file.attr.is_directory()) return Err(EISDIR);
  if (file.attr.is_symlink()) return Err(ELOOP);
  if (!file.attr.is_regular()) return Err(ENXIO);
  // The first name found decides a file's rules, so a second name of a hidden file is checked by
  // inode.
  if (file.attr.nlink > 1 && hidden_->contains(file.attr.dev, file.attr.ino)) return Err(EACCES);
  // Linux drops the bits when someone without CAP_FSETID writes, but not for a mapping, nor for
  // root.
  if (write && (file.attr.mode & (S_ISUID | S_ISGID))) return Err(EPERM);
  if (write) TRY(check_repository(file, Repositories::Change::kWrite));
  if (!file.at.tree().kernel_interface && is_kernel_interface(file.fd)) return Err(EACCES);
  return {};
}

std::string Server::inode_name(int path_fd) const { return std::to_string(path_fd); }

Result<UniqueFd> Server::open_inode(int path_fd, int flags) const {
  // The magic link leads to the very inode that was examined: no name is resolved again.
  int fd = ::openat(proc_fd_.get(), inode_name(path_fd).c_str(),
                    flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return HostErr();
  return UniqueFd(fd);
}

Attr Server::shown(Attr attr, const RuleState& rules, const Tree& tree) const {
  attr.flags = 0;
  if (rules.action == Action::kRw && tree.writable) attr.flags |= kAttrWritable;
  if (rules.action == Action::kDeny) attr.flags |= kAttrDenied;
  return attr;
}

Result<void> Server::give_away(const Handle& dir, const std::string& name, int fd, Owner owner) {
  if (!can_give_away_ || (owner.uid == kKeepOwner && owner.gid == kKeepOwner)) return {};
  const bool by_name = fd < 0;
  if (::fchownat(by_name ? dir.fd : fd, by_name ? name.c_str() : "", owner.uid, owner.gid,
                 AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0) {
    return {};
  }
  auto error = HostErr();
  // The call failed as a whole: what it made goes again, as far as that is possible.
  if (::unlinkat(dir.fd, name.c_str(), 0) < 0 && errno == EISDIR) {
    (void)::unlinkat(dir.fd, name.c_str(), AT_REMOVEDIR);
  }
  return error;
}

Result<void> Server::enter_new(const Handle& dir, const std::string& name, const RuleState& rules,
                               Owner owner, Writer& out) {
  TRY(give_away(dir, name, -1, owner));
  Attr attr = TRY(stat_at(dir.fd, name.c_str()));
  Ref<Node> node = TRY(nodes_.enter(dir.at.node, name, attr, rules));
  out.node({node->id, shown(attr, rules, dir.at.tree())});
  put_changed(dir, out);
  return {};
}

void Server::put_changed(const Handle& dir, Writer& out, uint32_t flags) const {
  auto attr = stat_at(dir.fd, "");
  Attr answer = attr ? shown(*attr, dir.at.rules, dir.at.tree()) : Attr{};
  answer.flags |= flags;
  out.attr(answer);
}

UniqueFd Server::pin_for(const Handle& dir, const std::string& name) {
  if (!nodes_.knows(*dir.at.node, name)) return UniqueFd();
  auto fd = open_beneath(dir.fd, name.c_str(), O_PATH | O_NOFOLLOW);
  return fd ? std::move(*fd) : UniqueFd();
}

}  // namespace uks::gofer
