// mounts and mountinfo of a process, as its root directory shows them.
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "sentry/fs/proc/proc_fs.h"
#include "sentry/vfs/fs_context.h"

namespace uks {
namespace {

std::string mount_options(const Mount& mount) {
  std::string out = mount.read_only() ? "ro" : "rw";
  constexpr std::pair<unsigned long, const char*> kNames[] = {{MS_NOSUID, ",nosuid"},
                                                              {MS_NODEV, ",nodev"},
                                                              {MS_NOEXEC, ",noexec"},
                                                              {MS_NOATIME, ",noatime"}};
  for (const auto& [flag, name] : kNames) {
    if (mount.flags() & flag) out += name;
  }
  if (!(mount.flags() & MS_NOATIME)) out += ",relatime";
  return out;
}

// Where `mount` is seen from `root`; empty if it is not below it.
std::string mount_place(const Ref<Mount>& mount, const Path& root) {
  bool reachable, deleted;
  std::string place = path_string(Path{mount, mount->root()}, root, reachable, deleted);
  return reachable && !deleted ? place : std::string();
}

// The directory of the file system that is the mount's root.
std::string root_in_fs(const Mount& mount) {
  std::string out;
  for (const Dentry* d = mount.root().get(); d->parent(); d = d->parent().get())
    out = "/" + d->name() + out;
  return out.empty() ? "/" : out;
}

template <typename Line>
Result<std::string> list_mounts(const ProcTarget& target, const Line& line) {
  const Task* task = target.task();
  if (!task || !task->fs_context) return Err(EINVAL);  // a zombie (mounts_open_common())
  std::string out;
  for (const Ref<Mount>& mount : task->fs_context->mounts->mounts()) {
    const std::string place = mount_place(mount, task->fs_context->root);
    if (!place.empty()) out += line(*mount, mangle(place));
  }
  return out;
}

std::string source_of(const Mount& mount) {
  return mangle(mount.source().empty() ? mount.fs().type() : mount.source());
}

}  // namespace

std::string mangle(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\\' || c == '#') {
      out += fmt::format("\\{:03o}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

Result<std::string> mounts_text(const ProcTarget& target, Task&) {
  return list_mounts(target, [](const Mount& m, const std::string& place) {
    return fmt::format("{} {} {} {}{} 0 0\n", source_of(m), place, m.fs().type(), mount_options(m),
                       m.fs().options());
  });
}

Result<std::string> mountinfo_text(const ProcTarget& target, Task&) {
  return list_mounts(target, [](const Mount& m, const std::string& place) {
    const uint64_t dev = m.fs().dev();
    // The root mount's parent is one that nobody sees.
    return fmt::format("{} {} {}:{} {} {} {} - {} {} {}{}\n", m.id(),
                       m.parent() ? m.parent()->id() : 1, gnu_dev_major(dev), gnu_dev_minor(dev),
                       mangle(root_in_fs(m)), place, mount_options(m), m.fs().type(), source_of(m),
                       m.read_only() ? "ro" : "rw", m.fs().options());
  });
}

}  // namespace uks
