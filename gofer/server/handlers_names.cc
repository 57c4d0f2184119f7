// Handlers that make, remove and move names.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

#include "gofer/server/host_fs.h"
#include "gofer/server/server.h"

namespace uks::gofer {

Result<void> Server::mkdir(Reader& in, Writer& out) {
  NodeId id = in.u64();
  std::string name(in.string(kMaxMessage));
  uint32_t mode = in.u32();
  Owner owner{in.u32(), in.u32()};
  if (!in.done()) return Err(EINVAL);
  std::shared_lock lock(names_lock_);
  Handle dir = TRY(find_directory(id));
  RuleState rules = TRY(changeable_child(dir, name));
  TRY(check_repository(dir, name, Repositories::Change::kMake));
  if (::mkdirat(dir.fd, name.c_str(), mode & 01777) < 0) return HostErr();
  TRY(enter_new(dir, name, rules, owner, out));
  if (auto attr = stat_at(dir.fd, name.c_str())) repositories_.made(*attr);
  return {};
}

Result<void> Server::symlink(Reader& in, Writer& out) {
  NodeId id = in.u64();
  std::string name(in.string(kMaxMessage));
  std::string target(in.string(kMaxMessage));
  Owner owner{in.u32(), in.u32()};
  if (!in.done() || target.find('\0') != std::string::npos) return Err(EINVAL);
  if (target.empty()) return Err(ENOENT);
  if (target.size() > kMaxLinkTarget) return Err(ENAMETOOLONG);
  std::shared_lock lock(names_lock_);
  Handle dir = TRY(find_directory(id));
  RuleState rules = TRY(changeable_child(dir, name));
  TRY(check_repository(dir, name, Repositories::Change::kMake));
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
  std::shared_lock lock(names_lock_);
  Handle dir = TRY(find_directory(id));
  RuleState rules = TRY(changeable_child(dir, name));
  TRY(check_repository(dir, name, Repositories::Change::kMake));
  if (::mknodat(dir.fd, name.c_str(), type | (mode & 01777), 0) < 0) return HostErr();
  return enter_new(dir, name, rules, owner, out);
}

Result<void> Server::link(Reader& in, Writer& out) {
  NodeId id = in.u64();
  NodeId dir_id = in.u64();
  std::string name(in.string(kMaxMessage));
  if (!in.done()) return Err(EINVAL);
  std::shared_lock lock(names_lock_);
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
  TRY(check_repository(dir, name, Repositories::Change::kMake));
  TRY(check_repository(file));  // by another name it could be written
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
  Attr attr = TRY(stat_at(dir.fd, name.c_str()));
  if (int hidden = rules_.visibility(rules_.child(dir.at.rules, name), attr.is_directory()))
    return Err(hidden);
  TRY(changeable_child(dir, name));
  TRY(check_repository(dir, name, Repositories::Change::kRemove));
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

namespace {

// The whole of a regular file. EACCES: it is too big for a configuration.
Result<std::string> read_configuration(int dir, const std::string& name) {
  UniqueFd fd = TRY(open_beneath(dir, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::pread(fd.get(), buffer, sizeof buffer, static_cast<off_t>(text.size()));
    if (n < 0) return HostErr();
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > Repositories::kMaxConfiguration) return Err(EACCES);
  }
}

}  // namespace

Result<void> Server::replace_configuration(const Handle& from, const std::string& source, const Handle& to,
                                           const std::string& target) {
  std::string before;
  if (auto text = read_configuration(to.fd, target)) {
    before = std::move(*text);
  } else if (text.error() != ENOENT) {
    return Err(text.error());
  }
  const std::string now = TRY(read_configuration(from.fd, source));
  TRY(repositories_.may_replace(to.at, target, before, now));
  const Attr attr = TRY(stat_at(from.fd, source.c_str()));
  const std::string name = target + ".uks-" + std::to_string(::getpid());
  (void)::unlinkat(to.fd, name.c_str(), 0);  // of a gofer that was killed right here
  UniqueFd copy = TRY(open_beneath(to.fd, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, attr.mode & 0777));
  const auto fill = [&]() -> Result<void> {
    if (can_give_away_ && ::fchownat(copy.get(), "", attr.uid, attr.gid, AT_EMPTY_PATH) < 0) return HostErr();
    size_t done = 0;
    while (done < now.size()) {
      const ssize_t n = ::pwrite(copy.get(), now.data() + done, now.size() - done, static_cast<off_t>(done));
      if (n <= 0) return n < 0 ? HostErr() : Err(ENOSPC);
      done += static_cast<size_t>(n);
    }
    if (syscall(SYS_renameat2, to.fd, name.c_str(), to.fd, target.c_str(), 0) < 0) return HostErr();
    return {};
  };
  if (auto filled = fill(); !filled) {
    (void)::unlinkat(to.fd, name.c_str(), 0);
    return filled;
  }
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
  const bool configuration =
      !exchange && repositories_.is_configuration(new_dir.at, new_dir.fd, new_dir.attr, new_name);
  using Change = Repositories::Change;
  TRY(check_repository(old_dir, old_name, exchange ? Change::kMake : Change::kMove));
  if (!configuration) TRY(check_repository(new_dir, new_name, Change::kMake));
  bool same_inode = target && target->dev == source.dev && target->ino == source.ino;
  UniqueFd pin = exchange || same_inode ? UniqueFd() : pin_for(new_dir, new_name);
  if (configuration && !same_inode) {
    if (target && (flags & RENAME_NOREPLACE)) return Err(EEXIST);
    if (!source.is_regular() || (target && !target->is_regular())) return Err(EACCES);
    UniqueFd old_pin = pin_for(old_dir, old_name);
    TRY(replace_configuration(old_dir, old_name, new_dir, new_name));
    // To the client both names have new files; it finds them by name.
    nodes_.unlinked(*old_dir.at.node, old_name, std::move(old_pin));
    nodes_.unlinked(*new_dir.at.node, new_name, std::move(pin));
    put_changed(old_dir, out);
    put_changed(new_dir, out);
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
