// Handlers for the contents and attributes of files.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <span>

#include "gofer/server/git_directory.h"
#include "gofer/server/host_fs.h"
#include "gofer/server/server.h"

namespace uks::gofer {
namespace {

// Mode bits that a new file may get: set-id bits never reach the host.
constexpr uint32_t kNewFileMode = 01777;

bool is_access_mode(int flags, int also) {
  return (flags & ~(O_ACCMODE | also)) == 0 && (flags & O_ACCMODE) != O_ACCMODE;
}

bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC); }

// The gofer keeps attributes in the user namespace: others are the host's security (EPERM to set).
bool is_user_xattr(const std::string& name) {
  return name.starts_with("user.") && name.size() > 5 && name.find('\0') == std::string::npos;
}

// XATTR_LIST_MAX bytes of each thread: `ls -l` and `cp -a` ask for every file.
std::span<char> xattr_buffer() {
  constexpr size_t kSize = 64 * 1024;
  static_assert(kMaxXattrValue <= kSize);
  thread_local std::unique_ptr<char[]> buffer;
  if (!buffer) buffer = std::make_unique_for_overwrite<char[]>(kSize);
  return {buffer.get(), kSize};
}

}  // namespace

Result<void> Server::open(Reader& in, Writer& out, UniqueFd& fd) {
  NodeId id = in.u64();
  int flags = in.i32();
  if (!in.done() || !is_access_mode(flags, O_TRUNC)) return Err(EINVAL);
  std::shared_lock lock(names_lock_);
  Handle file = TRY(find(id));
  TRY(check_data_access(file, writes(flags)));
  if (flags & O_TRUNC) TRY(check_truncation(file));
  if ((flags & O_TRUNC) && (flags & O_ACCMODE) == O_RDONLY) {
    // Linux truncates here too, given write permission; the descriptor handed over stays read-only.
    UniqueFd writer = TRY(open_inode(file.fd, O_WRONLY));
    if (::ftruncate(writer.get(), 0) < 0) return HostErr();
  }
  // Whoever writes to such a file is handed a reader.
  const bool indirect = writes(flags) && is_indirect(file);
  UniqueFd opened = TRY(open_inode(file.fd, indirect ? O_RDONLY : flags & O_ACCMODE));
  if ((flags & O_TRUNC) && (flags & O_ACCMODE) != O_RDONLY) {
    UniqueFd writer = indirect ? TRY(open_inode(file.fd, O_WRONLY)) : UniqueFd();
    if (::ftruncate(writer ? writer.get() : opened.get(), 0) < 0) return HostErr();
  }
  Attr attr =
      shown(flags & O_TRUNC ? TRY(stat_at(file.fd, "")) : file.attr, file.at.rules, file.at.tree());
  if (indirect) attr.flags |= kAttrIndirect;
  out.attr(attr);
  fd = std::move(opened);
  return {};
}

Result<void> Server::write(Reader& in, Writer& out) {
  const NodeId id = in.u64();
  const uint64_t offset = in.u64();
  const std::string_view bytes = in.string(kMaxMessage);
  if (!in.done() || bytes.empty()) return Err(EINVAL);
  std::unique_lock lock(names_lock_);
  Handle file = TRY(find(id));
  TRY(check_data_access(file, true));
  std::string name;
  const Handle parent = TRY(parent_of(file, name));
  constexpr size_t kMax = Repositories::kMaxText;
  if (offset > kMax || bytes.size() > kMax - offset) return Err(EFBIG);
  // Moved since it was opened, it may be an ordinary file by now.
  if (repositories_.is_indirect(named(parent, name))) {
    const std::string before = TRY(read_small_file(parent.fd, name.c_str(), kMax));
    std::string now = before;
    now.resize(std::max<size_t>(now.size(), offset + bytes.size()));
    now.replace(offset, bytes.size(), bytes);
    TRY(repositories_.may_become(named(parent, name), before, now));
  }
  UniqueFd writer = TRY(open_inode(file.fd, O_WRONLY));
  const ssize_t n = ::pwrite(writer.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
  if (n < 0) return HostErr();
  out.u32(static_cast<uint32_t>(n));
  return {};
}

Result<void> Server::create(Reader& in, Writer& out, UniqueFd& fd) {
  NodeId id = in.u64();
  std::string name(in.string(kMaxMessage));
  uint32_t mode = in.u32();
  int flags = in.i32();
  Owner owner{in.u32(), in.u32()};
  if (!in.done() || !is_access_mode(flags, O_TRUNC | O_EXCL)) return Err(EINVAL);
  const NameLock lock(names_lock_, Repositories::is_decisive(name));
  Handle dir = TRY(find_directory(id));
  if (int bad = check_name(name)) return Err(bad);
  RuleState rules = rules_.child(dir.at.rules, name);
  auto allowed = changeable_child(dir, name);
  // An existing file decides first: EEXIST goes before EROFS, and opening it may need no writing.
  auto existing = stat_at(dir.fd, name.c_str());
  bool visible = existing && rules_.visibility(rules, existing->is_directory()) == 0;
  if (visible && (flags & O_EXCL)) return Err(EEXIST);
  if (!visible && !allowed) return Err(allowed.error());
  bool created = false;
  if (!visible) {
    TRY(repositories_.check(named(dir, name), Repositories::Change::kMakeFile));
    auto made = open_beneath(dir.fd, name.c_str(),
                             static_cast<uint64_t>((flags & O_ACCMODE) | O_CREAT | O_EXCL |
                                                   O_NOFOLLOW | O_NONBLOCK | O_NOCTTY),
                             mode & kNewFileMode);
    if (made) {
      fd = std::move(*made);
      created = true;
    } else if (made.error() != EEXIST || (flags & O_EXCL)) {
      return Err(made.error());
    }
  }
  if (created) {
    TRY(give_away(dir, name, fd.get(), owner));
    Attr attr = TRY(stat_at(fd.get(), ""));
    Ref<Node> node = TRY(nodes_.enter(dir.at.node, name, attr, rules));
    attr = shown(attr, rules, dir.at.tree());
    if (repositories_.is_indirect(named(dir, name))) {
      const UniqueFd path = TRY(open_beneath(dir.fd, name.c_str(), O_PATH | O_NOFOLLOW));
      fd = TRY(open_inode(path.get(), O_RDONLY));
      attr.flags |= kAttrIndirect;
    }
    out.node({node->id, attr});
    out.u32(1);
    put_changed(dir, out);
    return {};
  }
  Step step = TRY(look_up(dir.at.node, dir.at.rules, dir.fd, dir.attr, name));
  auto open_it = [&]() -> Result<Attr> {
    Handle file = TRY(find(step.node->id));
    TRY(check_data_access(file, writes(flags)));
    if (flags & O_TRUNC) TRY(check_truncation(file));
    const bool indirect = writes(flags) && is_indirect(file);
    UniqueFd opened = TRY(open_inode(file.fd, indirect ? O_RDONLY : flags & O_ACCMODE));
    if (flags & O_TRUNC) {
      UniqueFd writer = TRY(open_inode(file.fd, O_WRONLY));
      if (::ftruncate(writer.get(), 0) < 0) return HostErr();
    }
    fd = std::move(opened);
    Attr attr = shown(TRY(stat_at(file.fd, "")), file.at.rules, file.at.tree());
    if (indirect) attr.flags |= kAttrIndirect;
    return attr;
  };
  auto attr = open_it();
  if (!attr) {
    nodes_.forget(step.node->id, 1);  // the answer does not carry the id
    return Err(attr.error());
  }
  out.node({step.node->id, *attr});
  out.u32(0);
  put_changed(dir, out);
  return {};
}

Result<void> Server::create_unnamed(Reader& in, Writer& out, UniqueFd& fd) {
  const NodeId id = in.u64();
  const uint32_t mode = in.u32();
  const Owner owner{in.u32(), in.u32()};
  if (!in.done()) return Err(EINVAL);
  std::shared_lock lock(names_lock_);
  const Handle dir = TRY(find_directory(id));
  TRY(check_changeable(dir));
  UniqueFd made = TRY(open_beneath(dir.fd, ".", O_TMPFILE | O_RDWR, mode & kNewFileMode));
  TRY(give_away(dir, "", made.get(), owner));
  // Its own mode may forbid to open it again.
  UniqueFd pin(::fcntl(made.get(), F_DUPFD_CLOEXEC, 0));
  if (!pin) return HostErr();
  const Attr attr = TRY(stat_at(made.get(), ""));
  const Ref<Node> node =
      TRY(nodes_.enter_unnamed(dir.at.tree(), attr, dir.at.rules, std::move(pin)));
  out.node({node->id, shown(attr, dir.at.rules, dir.at.tree())});
  fd = std::move(made);
  return {};
}

Result<void> Server::setattr(Reader& in, Writer& out) {
  NodeId id = in.u64();
  SetAttr changes;
  changes.mask = in.u32();
  changes.mode = in.u32();
  changes.uid = in.u32();
  changes.gid = in.u32();
  changes.size = in.u64();
  changes.atime = in.time();
  changes.mtime = in.time();
  constexpr uint32_t kNanoseconds = 1'000'000'000;
  if (!in.done() || changes.mask >= 2 * kSetMtimeNow || changes.atime.nsec >= kNanoseconds ||
      changes.mtime.nsec >= kNanoseconds || changes.size > INT64_MAX) {
    return Err(EINVAL);
  }
  std::shared_lock lock(names_lock_);
  Handle file = TRY(find(id));
  TRY(check_changeable(file));
  if (!file.attr.is_directory() && file.attr.nlink > 1 &&
      hidden_->contains(file.attr.dev, file.attr.ino)) {
    return Err(EACCES);
  }
  std::string inode = inode_name(file.fd);
  // All refusals before the first change.
  if (changes.mask & kSetMode) {
    if (file.attr.is_symlink()) return Err(EOPNOTSUPP);
    if (!file.attr.is_directory() && (changes.mode & (S_ISUID | S_ISGID))) return Err(EPERM);
  }
  if (changes.mask & kSetSize) {
    TRY(check_data_access(file, true));
    TRY(check_truncation(file));
    if (changes.size > 0 && is_indirect(file)) return Err(EACCES);
  }
  if (changes.mask & kSetMode) {
    using Change = Repositories::Change;
    const bool runs = !file.attr.is_directory() && (changes.mode & ~file.attr.mode & 0111);
    TRY(check_repository(file, runs ? Change::kMakeExecutable : Change::kMode));
  }
  if (changes.mask & (kSetUid | kSetGid)) {
    uid_t uid = changes.mask & kSetUid ? changes.uid : kKeepOwner;
    gid_t gid = changes.mask & kSetGid ? changes.gid : kKeepOwner;
    if (::fchownat(file.fd, "", uid, gid, AT_EMPTY_PATH) < 0) return HostErr();
  }
  if (changes.mask & kSetMode) {
    if (::fchmodat(proc_fd_.get(), inode.c_str(), changes.mode & 07777, 0) < 0) return HostErr();
  }
  if (changes.mask & kSetSize) {
    UniqueFd writer = TRY(open_inode(file.fd, O_WRONLY));
    if (::ftruncate(writer.get(), static_cast<off_t>(changes.size)) < 0) return HostErr();
  }
  if (changes.mask & (kSetAtime | kSetMtime | kSetAtimeNow | kSetMtimeNow)) {
    auto stamp = [&](uint32_t set, uint32_t now, const Time& t) -> timespec {
      if (changes.mask & now) return {0, UTIME_NOW};
      if (changes.mask & set) return {t.sec, static_cast<long>(t.nsec)};
      return {0, UTIME_OMIT};
    };
    timespec times[2] = {stamp(kSetAtime, kSetAtimeNow, changes.atime),
                         stamp(kSetMtime, kSetMtimeNow, changes.mtime)};
    // AT_EMPTY_PATH is known to utimensat(2) since Linux 5.8; only links need it.
    int result = file.attr.is_symlink() ? ::utimensat(file.fd, "", times, AT_EMPTY_PATH)
                                        : ::utimensat(proc_fd_.get(), inode.c_str(), times, 0);
    if (result < 0) return HostErr();
  }
  out.attr(shown(TRY(stat_at(file.fd, "")), file.at.rules, file.at.tree()));
  return {};
}

Result<void> Server::getxattr(Reader& in, Writer& out) {
  NodeId id = in.u64();
  std::string name(in.string(kMaxName));
  if (!in.done()) return Err(EINVAL);
  if (!is_user_xattr(name)) return Err(EOPNOTSUPP);
  std::shared_lock lock(names_lock_);
  Handle file = TRY(find(id));
  if (file.at.rules.action == Action::kDeny) return Err(EACCES);
  if (!file.attr.is_regular() && !file.attr.is_directory()) return Err(ENODATA);
  if (file.attr.is_regular()) TRY(check_data_access(file, false));
  const std::span<char> value = xattr_buffer().first(kMaxXattrValue);
  std::string path = fmt::format("/proc/self/fd/{}", file.fd);
  ssize_t size = ::getxattr(path.c_str(), name.c_str(), value.data(), value.size());
  if (size < 0) return errno == ERANGE ? Err(E2BIG) : HostErr();
  out.string(std::string_view(value.data(), static_cast<size_t>(size)));
  return {};
}

Result<void> Server::setxattr(Reader& in) {
  NodeId id = in.u64();
  std::string name(in.string(kMaxName));
  std::string_view value = in.string(kMaxMessage);
  int flags = in.i32();
  if (!in.done() || (flags & ~(XATTR_CREATE | XATTR_REPLACE))) return Err(EINVAL);
  if (value.size() > kMaxXattrValue) return Err(E2BIG);
  if (!is_user_xattr(name)) return Err(EPERM);
  std::shared_lock lock(names_lock_);
  Handle file = TRY(find(id));
  TRY(check_changeable(file));
  if (!file.attr.is_regular() && !file.attr.is_directory()) return Err(EPERM);
  if (file.attr.is_regular()) TRY(check_data_access(file, true));
  std::string path = fmt::format("/proc/self/fd/{}", file.fd);
  if (::setxattr(path.c_str(), name.c_str(), value.data(), value.size(), flags) < 0)
    return HostErr();
  return {};
}

Result<void> Server::listxattr(Reader& in, Writer& out) {
  NodeId id = in.u64();
  if (!in.done()) return Err(EINVAL);
  std::shared_lock lock(names_lock_);
  Handle file = TRY(find(id));
  if (file.at.rules.action == Action::kDeny) return Err(EACCES);
  std::vector<std::string> names;
  size_t room = out.room() - 4;
  if (file.attr.is_regular() || file.attr.is_directory()) {
    const std::span<char> list = xattr_buffer();
    std::string path = fmt::format("/proc/self/fd/{}", file.fd);
    ssize_t size = ::listxattr(path.c_str(), list.data(), list.size());
    if (size < 0) {
      if (errno != EOPNOTSUPP) return HostErr();
      size = 0;
    }
    std::string_view rest(list.data(), static_cast<size_t>(size));
    while (!rest.empty()) {
      size_t end = rest.find('\0');
      std::string name(rest.substr(0, end));
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
      if (!is_user_xattr(name)) continue;
      if (room < 4 + name.size()) return Err(E2BIG);
      room -= 4 + name.size();
      names.push_back(std::move(name));
    }
  }
  out.u32(static_cast<uint32_t>(names.size()));
  for (const std::string& name : names) out.string(name);
  return {};
}

Result<void> Server::removexattr(Reader& in) {
  NodeId id = in.u64();
  std::string name(in.string(kMaxName));
  if (!in.done()) return Err(EINVAL);
  if (!is_user_xattr(name)) return Err(EPERM);
  std::shared_lock lock(names_lock_);
  Handle file = TRY(find(id));
  TRY(check_changeable(file));
  if (!file.attr.is_regular() && !file.attr.is_directory()) return Err(EPERM);
  if (file.attr.is_regular()) TRY(check_data_access(file, true));
  std::string path = fmt::format("/proc/self/fd/{}", file.fd);
  if (::removexattr(path.c_str(), name.c_str()) < 0) return HostErr();
  return {};
}

Result<void> Server::fsync(Reader& in) {
  NodeId id = in.u64();
  bool data_only = in.u32() != 0;
  if (!in.done()) return Err(EINVAL);
  UniqueFd fd;
  {
    std::shared_lock lock(names_lock_);
    Handle file = TRY(find(id));
    if (file.attr.is_directory()) {
      if (file.at.rules.action == Action::kDeny) return Err(EACCES);
      fd = TRY(open_inode(file.fd, O_RDONLY | O_DIRECTORY));
    } else {
      TRY(check_data_access(file, false));
      auto reader = open_inode(file.fd, O_RDONLY);
      fd = reader ? std::move(*reader) : TRY(open_inode(file.fd, O_WRONLY));
    }
  }
  // Without the lock: a slow disk must not stop renames.
  if ((data_only ? ::fdatasync(fd.get()) : ::fsync(fd.get())) < 0) return HostErr();
  return {};
}

}  // namespace uks::gofer
