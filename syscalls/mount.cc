// chroot; mounting is the keeper's business, so a guest is told what an unprivileged process is
// told.
#include <linux/capability.h>

#include "gen/syscalls.h"
#include "sentry/vfs/ops.h"
#include "sentry/vfs/permissions.h"

namespace uks {

Result<int64_t> sys_chroot(Task& task, UserPath path) {
  Path place = TRY(resolve_at(task, AT_FDCWD, path, kFollowLast | kMustBeDir));
  TRY(check_place(task, place, kMayExec));
  if (!task.creds().has_cap(CAP_SYS_CHROOT)) return Err(EPERM);
  task.fs().root = std::move(place);
  return 0;
}

Result<int64_t> sys_mount(Task&, UserPath, UserPath, UserStr, uint64_t, UserAddr) {
  return Err(EPERM);
}
Result<int64_t> sys_umount2(Task&, UserPath, int) { return Err(EPERM); }
Result<int64_t> sys_pivot_root(Task&, UserPath, UserPath) { return Err(EPERM); }
Result<int64_t> sys_fsopen(Task&, UserStr, uint32_t) { return Err(EPERM); }
Result<int64_t> sys_move_mount(Task&, int, UserPath, int, UserPath, uint32_t) { return Err(EPERM); }
Result<int64_t> sys_open_tree(Task&, int, UserPath, uint32_t) { return Err(EPERM); }
Result<int64_t> sys_fspick(Task&, int, UserPath, uint32_t) { return Err(EPERM); }
Result<int64_t> sys_mount_setattr(Task&, int, UserPath, uint32_t, UserIn, uint64_t) {
  return Err(EPERM);
}

}  // namespace uks
