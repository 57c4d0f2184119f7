// fd, fdinfo, cwd, root, exe and ns: what leads from /proc to the objects of a process.
#include <fmt/format.h>

#include "sentry/fs/proc/proc_fs.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"
#include "sentry/vfs/resolve.h"

namespace uks {
namespace {

// mnt_id of objects that have no place: the id of the kernel's own mount for them, which no list
// shows.
constexpr int kAnonymousMountId = 15;

Result<Ref<File>> file_of(const ProcTarget& target, int fd) {
  const Task* task = target.task();
  if (!task || !task->fd_table) return Err(ENOENT);
  auto file = task->fd_table->get(fd);
  if (!file) return Err(ENOENT);
  return file;
}

// A link that jumps to a file or place, and shows its name.
class MagicLink : public PseudoInode {
 public:
  MagicLink(ProcFs& fs, uint64_t ino, uint32_t mode, ProcTarget target)
      : PseudoInode(fs, ino, S_IFLNK | mode), target_(std::move(target)) {
    attr_.size = 64;  // whatever the target's length, as on Linux
  }
  bool is_magic_link() const override { return true; }

 protected:
  static Result<std::string> name_of(const File& file, Task& reader) {
    return file.path().mount ? name_of(file.path(), reader) : file.anonymous_name();
  }
  // Names have to fit a page (do_proc_readlink()).
  static Result<std::string> name_of(const Path& place, Task& reader) {
    std::string name = path_string(place, reader.fs().root);
    if (name.size() >= 4096) return Err(ENAMETOOLONG);
    return name;
  }
  // Objects without a place have their inode: fstat works on it, opening goes through open_magic().
  static Result<Path> jump_to(const File& file) {
    Path place = place_of(file);
    if (!place) return Err(ENXIO);
    return place;
  }
  ProcTarget target_;
};

class FdLink final : public MagicLink {
 public:
  FdLink(ProcFs& fs, uint64_t ino, ProcTarget target, int fd, uint32_t mode)
      : MagicLink(fs, ino, mode, std::move(target)), fd_(fd) {}
  Result<std::string> readlink(Task& task) override {
    TRY(may_inspect(task, target_));
    return name_of(*TRY(file_of(target_, fd_)), task);
  }
  Result<Path> follow_magic(Task& task) override {
    TRY(may_inspect(task, target_));
    return jump_to(*TRY(file_of(target_, fd_)));
  }
  Result<Ref<File>> open_magic(Task& task, int flags) override {
    TRY(may_inspect(task, target_));
    const Ref<File> file = TRY(file_of(target_, fd_));
    return file->reopen(task, flags);
  }

 private:
  int fd_;
};

class PlaceLinkInode final : public MagicLink {
 public:
  PlaceLinkInode(ProcFs& fs, uint64_t ino, ProcTarget target, PlaceLink what)
      : MagicLink(fs, ino, 0777, std::move(target)), what_(what) {
    attr_.size = 0;
  }
  Result<std::string> readlink(Task& task) override {
    TRY(may_inspect(task, target_));
    if (what_ == PlaceLink::kExe) return name_of(*TRY(executable()), task);
    return name_of(TRY(place()), task);
  }
  Result<Path> follow_magic(Task& task) override {
    TRY(may_inspect(task, target_));
    if (what_ == PlaceLink::kExe) return jump_to(*TRY(executable()));
    return place();
  }
  Result<Ref<File>> open_magic(Task& task, int flags) override {
    TRY(may_inspect(task, target_));
    if (what_ != PlaceLink::kExe) return Err(ENXIO);
    const Ref<File> file = TRY(executable());
    return file->reopen(task, flags);
  }

 private:
  Result<Ref<File>> executable() const {
    if (!target_.task() || !target_.group->executable) return Err(ENOENT);
    return target_.group->executable;
  }
  Result<Path> place() const {
    const Task* task = target_.task();
    if (!task || !task->fs_context) return Err(ENOENT);
    return what_ == PlaceLink::kCwd ? task->fs_context->cwd : task->fs_context->root;
  }
  PlaceLink what_;
};

std::string fdinfo_text(const ProcTarget& target, int fd, const File& file) {
  int flags = file.flags();
  const Task* task = target.task();
  if (task && task->fd_table && task->fd_table->cloexec(fd).value_or(false)) flags |= O_CLOEXEC;
  // Every open on x86-64 has O_LARGEFILE, which the C library hides from us as 0.
  constexpr int kLargeFile = 0100000;
  if (file.path().mount && !(flags & O_PATH)) flags |= kLargeFile;
  uint64_t ino = 0;
  if (Inode* inode = file.inode()) {
    if (const auto attr = inode->getattr()) ino = attr->ino;
  }
  // "pos" comes first: programs read that line alone.
  return fmt::format("pos:\t{}\nflags:\t0{:o}\nmnt_id:\t{}\nino:\t{}\n{}", file.pos, flags,
                     file.path().mount ? file.path().mount->id() : kAnonymousMountId, ino,
                     file.fdinfo());
}

class FdInfoText final : public TextInode {
 public:
  FdInfoText(ProcFs& fs, uint64_t ino, ProcTarget target, int fd)
      : TextInode(fs, ino, 0400), target_(std::move(target)), fd_(fd) {}
  Result<std::string> generate(Task&) override {
    const Ref<File> file = TRY(file_of(target_, fd_));
    return fdinfo_text(target_, fd_, *file);
  }
  Result<void> check_open(Task& task, int) override { return may_inspect(task, target_); }

 private:
  ProcTarget target_;
  int fd_;
};

uint32_t link_mode(const File& file) {
  uint32_t mode = 0;
  if (file.readable()) mode |= S_IRUSR | S_IXUSR;
  if (file.writable()) mode |= S_IWUSR | S_IXUSR;
  return mode;
}

class FdDir final : public PseudoInode {
 public:
  FdDir(ProcFs& fs, uint64_t ino, ProcTarget target, bool info)
      : PseudoInode(fs, ino, S_IFDIR | (info ? 0555 : 0500)),
        target_(std::move(target)),
        info_(info) {}

  Result<Attr> getattr() override {
    Attr attr = attr_;
    // Since Linux 6.2 the size is the number of open descriptors.
    const Task* task = target_.task();
    if (!info_ && task && task->fd_table)
      attr.size = static_cast<uint64_t>(task->fd_table->count());
    return attr;
  }

  Result<Ref<Inode>> lookup(Task& task, std::string_view name) override {
    TRY(may_inspect(task, target_));
    const int fd = parse_number(name);
    if (fd < 0) return Ref<Inode>();
    const auto file = file_of(target_, fd);
    if (!file) return Ref<Inode>();
    auto& proc = static_cast<ProcFs&>(fs());
    const uint64_t number = pseudo_ino(ino(), name);
    Ref<PseudoInode> child;
    if (info_) {
      child = make_ref<FdInfoText>(proc, number, target_, fd);
    } else {
      child = make_ref<FdLink>(proc, number, target_, fd, link_mode(**file));
    }
    child->set_owner(attr_.uid, attr_.gid);
    return Ref<Inode>(std::move(child));
  }

  Result<std::vector<DirEntry>> read_dir(Task& task) override {
    TRY(may_inspect(task, target_));
    const Task* owner = target_.task();
    std::vector<DirEntry> out;
    if (!owner || !owner->fd_table) return out;
    for (const int fd : owner->fd_table->list()) {
      const std::string name = std::to_string(fd);
      out.push_back({name, pseudo_ino(ino(), name), dirent_type(info_ ? S_IFREG : S_IFLNK)});
    }
    return out;
  }

 private:
  ProcTarget target_;
  bool info_;
};

struct Namespace {
  const char* name;
  const char* kind;
  uint32_t number;  // of a system's initial namespaces (include/uapi/linux/nsfs.h); mnt and net
                    // have none fixed
};

constexpr Namespace kNamespaces[] = {
    {"cgroup", "cgroup", 0xEFFFFFFB}, {"ipc", "ipc", 0xEFFFFFFF},
    {"mnt", "mnt", 0xF0000000},       {"net", "net", 0xF0000001},
    {"pid", "pid", 0xEFFFFFFC},       {"pid_for_children", "pid", 0xEFFFFFFC},
    {"time", "time", 0xEFFFFFFA},     {"time_for_children", "time", 0xEFFFFFFA},
    {"user", "user", 0xEFFFFFFD},     {"uts", "uts", 0xEFFFFFFE},
};

// There is one namespace of each kind: the links can be compared, which is what they are read for,
// but not opened, since nothing could be done with them.
class NamespaceLink final : public PseudoInode {
 public:
  NamespaceLink(ProcFs& fs, uint64_t ino, ProcTarget target, const Namespace& ns)
      : PseudoInode(fs, ino, S_IFLNK | 0777), target_(std::move(target)), ns_(ns) {}
  bool is_magic_link() const override { return true; }
  Result<std::string> readlink(Task& task) override {
    TRY(may_inspect(task, target_));
    return fmt::format("{}:[{}]", ns_.kind, ns_.number);
  }
  Result<Path> follow_magic(Task&) override { return Err(EACCES); }

 private:
  ProcTarget target_;
  const Namespace& ns_;
};

}  // namespace

Ref<PseudoInode> make_fd_dir(ProcFs& fs, ProcTarget target, uint64_t ino) {
  return make_ref<FdDir>(fs, ino, std::move(target), false);
}

Ref<PseudoInode> make_fdinfo_dir(ProcFs& fs, ProcTarget target, uint64_t ino) {
  return make_ref<FdDir>(fs, ino, std::move(target), true);
}

Ref<PseudoInode> make_place_link(ProcFs& fs, ProcTarget target, uint64_t ino, PlaceLink what) {
  return make_ref<PlaceLinkInode>(fs, ino, std::move(target), what);
}

Ref<PseudoInode> make_namespace_dir(ProcFs& fs, ProcTarget target, uint64_t ino) {
  auto dir = make_ref<PseudoDir>(fs, ino, 0511);
  for (const Namespace& ns : kNamespaces) {
    dir->add(ns.name, make_ref<NamespaceLink>(fs, dir->child_ino(ns.name), target, ns));
  }
  return dir;
}

}  // namespace uks
