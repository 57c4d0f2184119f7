// Changing attributes: the checks of setattr_prepare() in fs/attr.c.
#include <linux/capability.h>

#include "sentry/vfs/notify.h"
#include "sentry/vfs/ops.h"
#include "sentry/vfs/permissions.h"

namespace uks {

Result<void> change_mode(Task& task, const Path& place, uint32_t mode) {
  TRY(want_write(place));
  Attr attr = TRY(place.inode()->getattr());
  if (attr.is_link()) return Err(EOPNOTSUPP);
  if (!is_owner_or_capable(task.creds(), attr)) return Err(EPERM);
  mode &= 07777;
  if (!attr.is_dir() && (mode & S_ISGID) && !task.creds().in_group(attr.gid) &&
      !task.creds().has_cap(CAP_FSETID))
    mode &= ~static_cast<uint32_t>(S_ISGID);
  SetAttr changes;
  changes.mode = mode;
  TRY(place.inode()->setattr(changes));
  notify::place(place, IN_ATTRIB);
  return {};
}

Result<void> change_owner(Task& task, const Path& place, uint32_t uid, uint32_t gid) {
  TRY(want_write(place));
  Attr attr = TRY(place.inode()->getattr());
  const Credentials& creds = task.creds();
  bool capable = creds.has_cap(CAP_CHOWN);
  SetAttr changes;
  if (uid != ~0u) {
    if (!capable && !(creds.fsuid == attr.uid && uid == attr.uid)) return Err(EPERM);
    if (uid != attr.uid) changes.uid = uid;
  }
  if (gid != ~0u) {
    if (!capable && !(creds.fsuid == attr.uid && (creds.in_group(gid) || gid == attr.gid)))
      return Err(EPERM);
    if (gid != attr.gid) changes.gid = gid;
  }
  if (uid != ~0u || gid != ~0u) {
    if (!attr.is_dir() && (attr.mode & (S_ISUID | S_ISGID)) && attr.is_regular())
      changes.mode = mode_without_setid(attr.mode) & 07777;
  }
  if (!changes.empty()) TRY(place.inode()->setattr(changes));
  if (uid != ~0u || gid != ~0u) notify::place(place, IN_ATTRIB);
  return {};
}

Result<void> change_times(Task& task, const Path& place, const timespec* times) {
  bool both_now = !times || (times[0].tv_nsec == UTIME_NOW && times[1].tv_nsec == UTIME_NOW);
  if (times && times[0].tv_nsec == UTIME_OMIT && times[1].tv_nsec == UTIME_OMIT) return {};
  TRY(want_write(place));
  Attr attr = TRY(place.inode()->getattr());
  if (!is_owner_or_capable(task.creds(), attr)) {
    if (!both_now) return Err(EPERM);
    TRY(check_access(task.creds(), attr, kMayWrite));
  }
  timespec now = now_timespec();
  SetAttr changes;
  auto pick = [&](const timespec* t) -> std::optional<timespec> {
    if (!t || t->tv_nsec == UTIME_NOW) return now;
    if (t->tv_nsec == UTIME_OMIT) return std::nullopt;
    return *t;
  };
  changes.atime = pick(times ? &times[0] : nullptr);
  changes.mtime = pick(times ? &times[1] : nullptr);
  TRY(place.inode()->setattr(changes));
  // One of them alone is what reading or writing would have changed (fsnotify_change()).
  notify::place(place, !changes.atime ? IN_MODIFY : changes.mtime ? IN_ATTRIB : IN_ACCESS);
  return {};
}

Result<void> truncate_place(Task& task, const Path& place, int64_t size) {
  if (size < 0) return Err(EINVAL);
  Attr attr = TRY(place.inode()->getattr());
  if (attr.is_dir()) return Err(EISDIR);
  if (!attr.is_regular()) return Err(EINVAL);
  TRY(check_place(task, place, kMayWrite));
  if (place.inode()->executions > 0) return Err(ETXTBSY);
  SetAttr changes;
  changes.size = static_cast<uint64_t>(size);
  if ((attr.mode & (S_ISUID | S_ISGID)) && !task.creds().has_cap(CAP_FSETID))
    changes.mode = mode_without_setid(attr.mode) & 07777;
  TRY(place.inode()->setattr(changes));
  notify::place(place, changes.mode ? IN_MODIFY | IN_ATTRIB : IN_MODIFY);
  return {};
}

}  // namespace uks
