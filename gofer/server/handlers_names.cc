// Handlers that make, remove and move names.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

#include "gofer/server/git_directory.h"
#include "gofer/server/host_fs.h"
#include "gofer/server/server.h"

namespace uks::gofer {
namespace {

// Of a link's O_PATH descriptor.
Result<std::string> link_text(int fd) {
  char target[kMaxLinkTarget];
  const ssize_t size = ::readlinkat(fd, "", target, sizeof(target));
  if (size < 0) return HostErr();
  return std::string(target, static_cast<size_t>(size));
}

}  // namespace

Result<void> Server::mkdir(Reader& in, Writer& out) {
  NodeId id = in.u64();
  std::string name(in.string(kMaxMessage));
  uint32_t mode = in.u32();
  Owner owner{in.u32(), in.u32()};
  if (!in.done()) return Err(EINVAL);
  const std::unique_lock lock(names_lock_);
  Handle dir = TRY(find_directory(id));
  RuleState rules = TRY(changeable_child(dir, name));
  TRY(repositories_.check(named(dir, name), Repositories::Change::kMakeDirectory));
  if (::mkdirat(dir.fd, name.c_str(), mode & 01777) < 0) return HostErr();
  return enter_new(dir, name, rules, owner, out);
}

Result<void> Server::symlink(Reader& in, Writer& out) {
  NodeId id = in.u64();
  std::string name(in.string(kMaxMessage));
  std::string target(in.string(kMaxMessage));
  Owner owner{in.u32(), in.u32()};
  if (!in.done() || target.find('\0') != std::string::npos) return Err(EINVAL);
  if (target.empty()) return Err(ENOENT);
  if (target.size() > kMaxLinkTarget) return Err(ENAMETOOLONG);
  const std::unique_lock lock(names_lock_);
  Handle dir = TRY(find_directory(id));
  RuleState rules = TRY(changeable_child(dir, name));
  TRY(repositories_.check(named(dir, name), Repositories::Change::kMakeLink, target));
  if (::symlinkat(target.c_str(), dir.fd, name.c_str()) < 0) return HostErr();
  return enter_new(dir, name, rules, owner, out);
}

Result<void> Server::mknod(Reader& in, Writer& out) {
  NodeId id = in.u64();
  std::string name(in.string(kMaxMessage));
  uint32_t mode = in.u32();
  Owner owner{in.u32(), in.u32()};
  if (!in.done()) return Err(EINVAL);
  uint32_t type = mode & S_IFMT;
  if (type == S_IFCHR || type == S_IFBLK) return Err(EPERM);
  if (type != S_IFREG && type != S_IFIFO && type != S_IFSOCK) return Err(EINVAL);
  const std::unique_lock lock(names_lock_);
  Handle dir = TRY(find_directory(id));
  RuleState rules = TRY(changeable_child(dir, name));
  TRY(repositories_.check(named(dir, name), Repositories::Change::kMakeFile));
  if (::mknodat(dir.fd, name.c_str(), type | (mode & 01777), 0) < 0) return HostErr();
  return enter_new(dir, name, rules, owner, out);
}

Result<void> Server::link(Reader& in, Writer& out) {
  NodeId id = in.u64();
  NodeId dir_id = in.u64();
  std::string name(in.string(kMaxMessage));
  if (!in.done()) return Err(EINVAL);
  std::unique_lock lock(names_lock_);
  Handle file = TRY(find(id));
  Handle dir = TRY(find_directory(dir_id));
  RuleState rules = TRY(changeable_child(dir, name));
  if (file.attr.is_directory()) return Err(EPERM);
  if (file.at.rules.action == Action::kDeny) return Err(EACCES);
  // A new name in a writable place would make a read-only file writable.
  if (&file.at.tree() != &dir.at.tree() || !file.at.may_write()) return Err(EXDEV);
  if (file.attr.mode & (S_ISUID | S_ISGID)) return Err(EPERM);
  // Even a file with one link: its only name may be the hidden one, reached by a rule's blind spot.
  if (hidden_->contains(file.attr.dev, file.attr.ino)) return Err(EACCES);
  if (file.attr.is_symlink()) {
    TRY(repositories_.check(named(dir, name), Repositories::Change::kMakeLink,
                            TRY(link_text(file.fd))));
  } else {
    TRY(repositories_.check(named(dir, name), Repositories::Change::kPutFile));
    TRY(check_repository(file,
                         Repositories::Change::kWrite));  // by another name it could be written
    if (is_indirect(file)) {
      std::string old_name;
      const Handle parent = TRY(parent_of(file, old_name));
      return repositories_.refuse(named(parent, old_name), "git's files get no other names");
    }
  }
  // AT_SYMLINK_FOLLOW follows the magic link only, to the very inode; AT_EMPTY_PATH would need a
  // capability.
  if (::linkat(proc_fd_.get(), inode_name(file.fd).c_str(), dir.fd, name.c_str(),
               AT_SYMLINK_FOLLOW) < 0) {
    return HostErr();
  }
  return enter_new(dir, name, rules, {}, out);
}

Result<void> Server::unlink(Reader& in, Writer& out, bool directory) {
  NodeId id = in.u64();
  std::string name(in.string(kMaxMessage));
  if (!in.done()) return Err(EINVAL);
  std::shared_lock lock(names_lock_);
  Handle dir = TRY(find_directory(id));
  if (int bad = check_name(name)) return Err(bad);
  const Attr attr = TRY(stat_at(dir.fd, name.c_str()));
  if (int hidden = rules_.visibility(rules_.child(dir.at.rules, name), attr.is_directory()))
    return Err(hidden);
  TRY(changeable_child(dir, name));
  using Change = Repositories::Change;
  TRY(repositories_.check(named(dir, name),
                          directory ? Change::kRemoveDirectory : Change::kRemove));
  UniqueFd pin = pin_for(dir, name);
  if (::unlinkat(dir.fd, name.c_str(), directory ? AT_REMOVEDIR : 0) < 0) return HostErr();
  nodes_.unlinked(*dir.at.node, name, std::move(pin));
  put_changed(dir, out);
  return {};
}

Result<void> Server::check_move(const RuleState& from, const RuleState& to,
                                bool is_directory) const {
  if (!is_directory) return {};
  // The rules for everything below must stay what they are, or moving a directory would uncover
  // what it holds. The states of nodes below then need no change either.
  if (from.action == to.action && from.live == to.live) return {};
  // EXDEV makes mv(1) and others copy, name by name under the rules of the new place.
  return Err(rules_.leads_to_named_path(from) ? EBUSY : EXDEV);
}

Result<void> Server::check_arrival(const Handle& dir, const std::string& name, const Attr& what,
                                   const Handle& old_dir, const std::string& old_name) {
  using Change = Repositories::Change;
  if (what.is_symlink()) {
    const UniqueFd link = TRY(open_beneath(old_dir.fd, old_name.c_str(), O_PATH | O_NOFOLLOW));
    return repositories_.check(named(dir, name), Change::kMakeLink, TRY(link_text(link.get())));
  }
  if (!what.is_directory()) return repositories_.check(named(dir, name), Change::kPutFile);
  TRY(repositories_.check(named(dir, name), Change::kPutDirectory));
  return repositories_.may_move(named(old_dir, old_name), named(dir, name));
}

Result<void> Server::replace_configuration(const Handle& from, const std::string& source,
                                           const Handle& to, const std::string& target) {
  const Repositories::Name at = named(to, target);
  const auto before = read_small_file(to.fd, target.c_str(), Repositories::kMaxText);
  const auto now = read_small_file(from.fd, source.c_str(), Repositories::kMaxText);
  if (!now || (!before && before.error() != ENOENT))
    return repositories_.refuse(at, "it is no usual configuration of a repository");
  TRY(repositories_.may_become(at, before.value_or(""), *now));
  const Attr attr = TRY(stat_at(from.fd, source.c_str()));
  TRY(put_file(to.fd, target.c_str(), Repositories::temporary_name(target).c_str(), *now, attr,
               can_give_away_));
  if (::unlinkat(from.fd, source.c_str(), 0) < 0) return HostErr();
  return {};
}

Result<void> Server::rename(Reader& in, Writer& out) {
  NodeId old_id = in.u64();
  std::string old_name(in.string(kMaxMessage));
  NodeId new_id = in.u64();
  std::string new_name(in.string(kMaxMessage));
  uint32_t flags = in.u32();
  if (!in.done() || (flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE))) return Err(EINVAL);
  bool exchange = flags & RENAME_EXCHANGE;
  if (exchange && (flags & RENAME_NOREPLACE)) return Err(EINVAL);
  std::unique_lock lock(names_lock_);
  Handle old_dir = TRY(find_directory(old_id));
  Handle new_dir = TRY(find_directory(new_id));
  if (&old_dir.at.tree() != &new_dir.at.tree()) return Err(EXDEV);
  if (int bad = check_name(old_name)) return Err(bad);
  if (int bad = check_name(new_name)) return Err(bad);
  Attr source = TRY(stat_at(old_dir.fd, old_name.c_str()));
  if (int hidden =
          rules_.visibility(rules_.child(old_dir.at.rules, old_name), source.is_directory())) {
    return Err(hidden);
  }
  RuleState old_rules = TRY(changeable_child(old_dir, old_name));
  RuleState new_rules = TRY(changeable_child(new_dir, new_name));
  TRY(check_move(old_rules, new_rules, source.is_directory()));
  auto target = stat_at(new_dir.fd, new_name.c_str());
  if (!target && target.error() != ENOENT) return Err(target.error());
  if (exchange) {
    if (!target) return Err(ENOENT);
    TRY(check_move(new_rules, old_rules, target->is_directory()));
  } else if (target && target->is_directory() && rules_.leads_to_named_path(new_rules)) {
    return Err(EBUSY);
  }
  using Change = Repositories::Change;
  const bool configuration =
      !exchange && source.is_regular() && repositories_.is_configuration(named(new_dir, new_name));
  TRY(repositories_.check(named(old_dir, old_name), Change::kMove));
  if (exchange) TRY(repositories_.check(named(new_dir, new_name), Change::kMove));
  if (!configuration) TRY(check_arrival(new_dir, new_name, source, old_dir, old_name));
  if (exchange) TRY(check_arrival(old_dir, old_name, *target, new_dir, new_name));
  bool same_inode = target && target->dev == source.dev && target->ino == source.ino;
  UniqueFd pin = exchange || same_inode ? UniqueFd() : pin_for(new_dir, new_name);
  if (configuration && !same_inode) {
    if (target && (flags & RENAME_NOREPLACE)) return Err(EEXIST);
    UniqueFd old_pin = pin_for(old_dir, old_name);
    TRY(replace_configuration(old_dir, old_name, new_dir, new_name));
    // To the client both names have new files; it finds them by name.
    nodes_.unlinked(*old_dir.at.node, old_name, std::move(old_pin));
    nodes_.unlinked(*new_dir.at.node, new_name, std::move(pin));
    put_changed(old_dir, out);
    put_changed(new_dir, out, kAttrCopied);
    return {};
  }
  if (syscall(SYS_renameat2, old_dir.fd, old_name.c_str(), new_dir.fd, new_name.c_str(), flags) <
      0) {
    return HostErr();
  }
  put_changed(old_dir, out);
  put_changed(new_dir, out);
  // rename(2): two links to one inode stay both.
  if (same_inode) return {};
  if (exchange) {
    nodes_.exchanged(*old_dir.at.node, old_name, std::move(old_rules), *new_dir.at.node, new_name,
                     std::move(new_rules));
  } else {
    nodes_.renamed(*old_dir.at.node, old_name, *new_dir.at.node, new_name, std::move(new_rules),
                   std::move(pin));
  }
  return {};
}

}  // namespace uks::gofer
