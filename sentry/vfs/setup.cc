// Building the guest's tree: mounts, mount points, generated files.
#include "sentry/vfs/setup.h"

#include <sys/mount.h>

#include <set>

#include "sentry/fs/dev/dev.h"
#include "sentry/fs/goferfs/gofer_fs.h"
#include "sentry/fs/overlay/overlay.h"
#include "sentry/fs/proc/proc.h"
#include "sentry/fs/sys/sys.h"
#include "sentry/fs/tmpfs/tmpfs.h"
#include "sentry/task/kernel.h"
#include "sentry/vfs/path.h"

namespace uks {
namespace {

// Edits that the host makes in a shared tree show within 10 ms: names are cached twice.
constexpr MonotonicNs kSharedTtl = 5'000'000;
// A lower layer is the system's own files: edits there may take two seconds to show.
constexpr MonotonicNs kLowerTtl = 1'000'000'000;

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> names;
  size_t at = 0;
  while (at < path.size()) {
    size_t end = std::min(path.find('/', at), path.size());
    if (end > at) names.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

// A directory or file under `dir`, made if it is missing: the guest's, as the directory that it
// stands for is likely to be outside.
Result<Ref<Inode>> find_or_make(Inode& dir, const std::string& name, bool directory,
                                const ViewConfig& config) {
  auto found = TRY(dir.find(name));
  if (found) return found;
  NewNode node{.mode = directory ? S_IFDIR | 0755u : S_IFREG | 0644u,
               .uid = config.uid,
               .gid = config.gid,
               .rdev = 0};
  return directory ? dir.mkdir(name, node) : dir.mknod(name, node);
}

// Down from the root over mounts, without links: the keeper's paths are canonical.
class Builder {
 public:
  Builder(Kernel& kernel, const ViewConfig& config, gofer::GoferClient& client)
      : kernel_(kernel), config_(config), client_(client) {
    if (kernel.events) watches_ = make_ref<HostWatches>(client, *kernel.events);
  }

  Result<Ref<MountNamespace>> build() {
    for (const ViewMount& m : config_.mounts) {
      TRY(add(m));
      if (&m == &config_.mounts.front()) expect_names(*ns_->root()->root()->inode());
    }
    if (!ns_) return Err(EINVAL);
    for (const ViewFile& f : config_.files) TRY(place(f));
    for (auto& m : ns_->mounts()) {
      if (std::string_view(m->fs().type()) == "overlay")
        static_cast<Overlay&>(m->fs()).note_baseline();
    }
    return ns_;
  }

 private:
  // What is about to be looked up in the root directory, and by almost every program: each name of
  // its own would be a message to the gofer and back.
  void expect_names(Inode& root) {
    std::set<std::string> names{"bin", "lib", "lib64", "usr"};
    const auto add_first = [&](const std::string& path) {
      const auto parts = split(path);
      if (!parts.empty()) names.insert(parts[0]);
    };
    for (const ViewMount& m : config_.mounts) add_first(m.target);
    for (const ViewFile& f : config_.files) add_first(f.path);
    prefetch(root, names);
    // The generated files are all there; what the dynamic linker asks for comes along.
    std::set<std::string> in_etc{"ld.so.cache", "ld.so.preload"};
    for (const ViewFile& f : config_.files) {
      const auto parts = split(f.path);
      if (parts.size() == 2 && parts[0] == "etc") in_etc.insert(parts[1]);
    }
    if (const auto etc = root.find("etc"); etc && *etc && (*etc)->is_dir()) prefetch(**etc, in_etc);
  }
  static void prefetch(Inode& dir, const std::set<std::string>& names) {
    const std::vector<std::string_view> views(names.begin(), names.end());
    dir.prefetch_each(views);
  }

  struct Root {
    Ref<Inode> inode;
    const char* source;
    unsigned long flags;
  };

  Result<Root> make_root(const ViewMount& m) {
    constexpr unsigned long kUsual = MS_NOSUID | MS_NODEV;
    switch (m.kind) {
      case MountKind::kGofer: {
        auto fs = make_ref<GoferFs>(client_, m.tree, kSharedTtl, watches_);
        return Root{TRY(fs->attach()), "uks", kUsual};
      }
      case MountKind::kOverlay: {
        auto lower = make_ref<GoferFs>(client_, m.tree, kLowerTtl, watches_);
        auto fs =
            make_ref<Overlay>(TRY(lower->attach()), m.size_limit, kLowerTtl, kernel_.file_pages);
        return Root{fs->root(), "overlay", MS_NODEV};
      }
      case MountKind::kTmpfs: {
        auto fs = make_ref<Tmpfs>(m.size_limit, 1, kernel_.file_pages);
        return Root{fs->make_root(m.mode, config_.uid, config_.gid), "tmpfs", kUsual};
      }
      case MountKind::kProc:
        return Root{make_proc_root(kernel_, config_), "proc", kUsual | MS_NOEXEC};
      case MountKind::kDev:
        pts_ = make_devpts_root(kernel_);
        return Root{make_dev_root(kernel_, config_, pts_), "devtmpfs", MS_NOSUID};
      case MountKind::kSys:
        return Root{make_sys_root(kernel_, config_), "sysfs", kUsual | MS_NOEXEC | MS_RDONLY};
    }
    return Err(EINVAL);
  }

  Result<void> add(const ViewMount& m) {
    Root root = TRY(make_root(m));
    unsigned long flags = root.flags | (m.read_only ? MS_RDONLY : 0);
    auto mount = make_ref<Mount>(Ref<FileSystem>(&root.inode->fs()), Dentry::make_root(root.inode),
                                 flags, m.source.empty() ? root.source : m.source);
    if (!ns_) {
      if (!split(m.target).empty()) return Err(EINVAL);
      ns_ = make_ref<MountNamespace>(std::move(mount));
      return {};
    }
    Path at = TRY(walk(split(m.target), root.inode->is_dir()));
    ns_->add(at, std::move(mount));
    if (m.kind != MountKind::kDev) return {};
    auto pts = std::exchange(pts_, nullptr);
    ns_->add(TRY(walk(split(m.target + "/pts"), true)),
             make_ref<Mount>(Ref<FileSystem>(&pts->fs()), Dentry::make_root(pts),
                             MS_NOSUID | MS_NOEXEC, "devpts"));
    // Shared memory objects need a place of their own, world-writable.
    for (const ViewMount& other : config_.mounts) {
      if (split(other.target) == std::vector<std::string>{"dev", "shm"}) return {};
    }
    ViewMount shm;
    shm.target = m.target + "/shm";
    shm.mode = 01777;
    return add(shm);
  }

  void cross(Path& at) {
    while (auto m = ns_->covering(*at.mount, *at.dentry)) {
      at.dentry = m->root();
      at.mount = std::move(m);
    }
  }

  // The place of a path; what is missing is made: directories on the way, at the end a directory or
  // an empty file.
  Result<Path> walk(const std::vector<std::string>& names, bool directory) {
    Path at{ns_->root(), ns_->root()->root()};
    for (size_t i = 0; i < names.size(); ++i) {
      cross(at);
      auto dentry = at.dentry->cached_child(names[i]);
      if (!dentry || dentry->negative()) {
        Ref<Inode> dir = at.dentry->inode_ref();
        auto inode = TRY(find_or_make(*dir, names[i], i + 1 < names.size() || directory, config_));
        dentry = Dentry::make(at.dentry, names[i], std::move(inode));
        MonotonicNs ttl = dir->fs().name_ttl();
        at.dentry->hash(dentry, ttl == FileSystem::kForever ? ttl : monotonic_now() + ttl);
      }
      at.dentry = std::move(dentry);
    }
    return at;
  }

  Result<void> place(const ViewFile& f) {
    auto names = split(f.path);
    if (names.empty()) return Err(EINVAL);
    std::string name = names.back();
    names.pop_back();
    Path at = TRY(walk(names, true));
    cross(at);
    Ref<Inode> dir = at.dentry->inode_ref();
    ++at.dentry->changes;
    NewNode node{.mode = f.mode, .uid = f.uid, .gid = f.gid, .rdev = 0};
    auto old = TRY(dir->find(name));
    if (S_ISDIR(f.mode)) {
      if (old && old->is_dir()) {
        SetAttr changes;
        changes.mode = f.mode & 07777;
        changes.uid = f.uid;
        changes.gid = f.gid;
        return old->setattr(changes);
      }
      if (old) TRY(dir->unlink(name, *old));
      TRY(dir->mkdir(name, node));
      return {};
    }
    if (old && old->is_dir()) return Err(EISDIR);
    if (old) TRY(dir->unlink(name, *old));
    if (auto cached = at.dentry->cached_child(name)) cached->unhash();
    if (S_ISLNK(f.mode)) {
      TRY(dir->symlink(name, f.content, node));
      return {};
    }
    auto inode = TRY(dir->mknod(name, node));
    if (auto* above = overlay_upper(*inode)) inode = Ref<Inode>(above);
    size_t done = 0;
    while (done < f.content.size()) {
      std::span<const char> rest(f.content.data() + done, f.content.size() - done);
      size_t n = TRY(inode->write_at(static_cast<int64_t>(done), rest));
      if (n == 0) return Err(ENOSPC);
      done += n;
    }
    return {};
  }

  // Kernel-side writes go to the upper file itself.
  static Inode* overlay_upper(Inode& inode) {
    if (std::string_view(inode.fs().type()) != "overlay") return nullptr;
    return static_cast<OverlayInode&>(inode).upper();
  }

  Kernel& kernel_;
  const ViewConfig& config_;
  gofer::GoferClient& client_;
  Ref<HostWatches> watches_;
  Ref<MountNamespace> ns_;
  Ref<DevptsRoot> pts_;  // of the /dev that is being mounted
};

}  // namespace

Result<Ref<MountNamespace>> build_view(Kernel& kernel, const ViewConfig& config,
                                       gofer::GoferClient& client) {
  return Builder(kernel, config, client).build();
}

uint64_t discarded_files(const MountNamespace& mounts) {
  uint64_t n = 0;
  for (auto& m : mounts.mounts()) {
    if (std::string_view(m->fs().type()) == "overlay")
      n += static_cast<const Overlay&>(m->fs()).discarded_files();
  }
  return n;
}

}  // namespace uks
