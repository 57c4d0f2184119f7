// User and group ids, capabilities: after kernel/sys.c, kernel/groups.c and kernel/capability.c, on
// virtual credentials.
#include <linux/capability.h>
#include <linux/securebits.h>

#include <algorithm>
#include <vector>

#include "gen/syscalls.h"
#include "sentry/task/clone.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"

namespace uks {
namespace {

constexpr uint32_t kNoId = ~0u;
constexpr uint64_t kFsCaps = uint64_t{1} << CAP_CHOWN | uint64_t{1} << CAP_DAC_OVERRIDE |
                             uint64_t{1} << CAP_DAC_READ_SEARCH | uint64_t{1} << CAP_FOWNER |
                             uint64_t{1} << CAP_FSETID | uint64_t{1} << CAP_MKNOD |
                             uint64_t{1} << CAP_MAC_OVERRIDE | uint64_t{1} << CAP_LINUX_IMMUTABLE;

// cap_emulate_setxuid() of security/commoncap.c.
void fix_capabilities(const Credentials& old, Credentials& now) {
  if (now.securebits & SECBIT_NO_SETUID_FIXUP) return;
  const bool was_root = old.ruid == 0 || old.euid == 0 || old.suid == 0;
  const bool is_root = now.ruid == 0 || now.euid == 0 || now.suid == 0;
  if (was_root && !is_root) {
    if (!(now.securebits & SECBIT_KEEP_CAPS)) {
      now.cap_permitted = 0;
      now.cap_effective = 0;
    }
    now.cap_ambient = 0;
  }
  if (old.euid == 0 && now.euid != 0) now.cap_effective = 0;
  if (old.euid != 0 && now.euid == 0) now.cap_effective = now.cap_permitted;
}

int64_t commit_uids(Task& task, Credentials now) {
  const Credentials& old = task.creds();
  fix_capabilities(old, now);
  // commit_creds(): a change of ids ends dumpability and the parent-death signal.
  if (now.euid != old.euid || now.egid != old.egid || now.fsuid != old.fsuid ||
      now.fsgid != old.fsgid) {
    task.group().dumpable = false;
    task.parent_death_signal = 0;
  }
  const bool new_user = now.ruid != old.ruid;
  task.set_creds(std::move(now));
  if (new_user) note_process_limit(task);
  return 0;
}

bool one_of(uint32_t id, uint32_t a, uint32_t b, uint32_t c) {
  return id == a || id == b || id == c;
}

}  // namespace

Result<int64_t> sys_getuid(Task& task) { return task.creds().ruid; }
Result<int64_t> sys_geteuid(Task& task) { return task.creds().euid; }
Result<int64_t> sys_getgid(Task& task) { return task.creds().rgid; }
Result<int64_t> sys_getegid(Task& task) { return task.creds().egid; }

Result<int64_t> sys_setuid(Task& task, uint32_t id) {
  if (id == kNoId) return Err(EINVAL);
  Credentials c = task.copy_creds();
  if (c.has_cap(CAP_SETUID)) {
    c.ruid = c.suid = id;
  } else if (id != c.ruid && id != c.suid) {
    return Err(EPERM);
  }
  c.euid = c.fsuid = id;
  return commit_uids(task, std::move(c));
}

Result<int64_t> sys_setgid(Task& task, uint32_t id) {
  if (id == kNoId) return Err(EINVAL);
  Credentials c = task.copy_creds();
  if (c.has_cap(CAP_SETGID)) {
    c.rgid = c.sgid = id;
  } else if (id != c.rgid && id != c.sgid) {
    return Err(EPERM);
  }
  c.egid = c.fsgid = id;
  return commit_uids(task, std::move(c));
}

Result<int64_t> sys_setreuid(Task& task, uint32_t ruid, uint32_t euid) {
  const Credentials& old = task.creds();
  Credentials c = task.copy_creds();
  const bool privileged = old.has_cap(CAP_SETUID);
  if (ruid != kNoId) {
    if (!privileged && ruid != old.ruid && ruid != old.euid) return Err(EPERM);
    c.ruid = ruid;
  }
  if (euid != kNoId) {
    if (!privileged && !one_of(euid, old.ruid, old.euid, old.suid)) return Err(EPERM);
    c.euid = euid;
  }
  if (ruid != kNoId || (euid != kNoId && euid != old.ruid)) c.suid = c.euid;
  c.fsuid = c.euid;
  return commit_uids(task, std::move(c));
}

Result<int64_t> sys_setregid(Task& task, uint32_t rgid, uint32_t egid) {
  const Credentials& old = task.creds();
  Credentials c = task.copy_creds();
  const bool privileged = old.has_cap(CAP_SETGID);
  if (rgid != kNoId) {
    if (!privileged && rgid != old.rgid && rgid != old.egid) return Err(EPERM);
    c.rgid = rgid;
  }
  if (egid != kNoId) {
    if (!privileged && !one_of(egid, old.rgid, old.egid, old.sgid)) return Err(EPERM);
    c.egid = egid;
  }
  if (rgid != kNoId || (egid != kNoId && egid != old.rgid)) c.sgid = c.egid;
  c.fsgid = c.egid;
  return commit_uids(task, std::move(c));
}

Result<int64_t> sys_setresuid(Task& task, uint32_t ruid, uint32_t euid, uint32_t suid) {
  const Credentials& old = task.creds();
  if (!old.has_cap(CAP_SETUID)) {
    for (const uint32_t id : {ruid, euid, suid}) {
      if (id != kNoId && !one_of(id, old.ruid, old.euid, old.suid)) return Err(EPERM);
    }
  }
  Credentials c = task.copy_creds();
  if (ruid != kNoId) c.ruid = ruid;
  if (euid != kNoId) c.euid = euid;
  if (suid != kNoId) c.suid = suid;
  c.fsuid = c.euid;
  return commit_uids(task, std::move(c));
}

Result<int64_t> sys_setresgid(Task& task, uint32_t rgid, uint32_t egid, uint32_t sgid) {
  const Credentials& old = task.creds();
  if (!old.has_cap(CAP_SETGID)) {
    for (const uint32_t id : {rgid, egid, sgid}) {
      if (id != kNoId && !one_of(id, old.rgid, old.egid, old.sgid)) return Err(EPERM);
    }
  }
  Credentials c = task.copy_creds();
  if (rgid != kNoId) c.rgid = rgid;
  if (egid != kNoId) c.egid = egid;
  if (sgid != kNoId) c.sgid = sgid;
  c.fsgid = c.egid;
  return commit_uids(task, std::move(c));
}

Result<int64_t> sys_getresuid(Task& task, UserOut ruid, UserOut euid, UserOut suid) {
  TRY(task.copy_out(ruid, uint32_t{task.creds().ruid}));
  TRY(task.copy_out(euid, uint32_t{task.creds().euid}));
  TRY(task.copy_out(suid, uint32_t{task.creds().suid}));
  return 0;
}

Result<int64_t> sys_getresgid(Task& task, UserOut rgid, UserOut egid, UserOut sgid) {
  TRY(task.copy_out(rgid, uint32_t{task.creds().rgid}));
  TRY(task.copy_out(egid, uint32_t{task.creds().egid}));
  TRY(task.copy_out(sgid, uint32_t{task.creds().sgid}));
  return 0;
}

// Both answer the old id, whether they changed it or not.
Result<int64_t> sys_setfsuid(Task& task, uint32_t id) {
  Credentials c = task.copy_creds();
  const uint32_t old = c.fsuid;
  if (id == kNoId || id == old) return old;
  if (!c.has_cap(CAP_SETUID) && !one_of(id, c.ruid, c.euid, c.suid) && id != c.fsuid) return old;
  c.fsuid = id;
  if (!(c.securebits & SECBIT_NO_SETUID_FIXUP)) {
    if (old == 0 && id != 0) c.cap_effective &= ~kFsCaps;
    if (old != 0 && id == 0) c.cap_effective |= kFsCaps & c.cap_permitted;
  }
  task.set_creds(std::move(c));
  return old;
}

Result<int64_t> sys_setfsgid(Task& task, uint32_t id) {
  Credentials c = task.copy_creds();
  const uint32_t old = c.fsgid;
  if (id == kNoId || id == old) return old;
  if (!c.has_cap(CAP_SETGID) && !one_of(id, c.rgid, c.egid, c.sgid)) return old;
  c.fsgid = id;
  task.set_creds(std::move(c));
  return old;
}

Result<int64_t> sys_getgroups(Task& task, int count, UserAddr list) {
  if (count < 0) return Err(EINVAL);
  const auto& groups = task.creds().groups;
  if (count == 0) return static_cast<int64_t>(groups.size());
  if (static_cast<size_t>(count) < groups.size()) return Err(EINVAL);
  TRY(task.copy_out(list, groups.data(), groups.size() * sizeof(gid_t)));
  return static_cast<int64_t>(groups.size());
}

Result<int64_t> sys_setgroups(Task& task, int count, UserAddr list) {
  Credentials c = task.copy_creds();
  if (!c.has_cap(CAP_SETGID)) return Err(EPERM);
  constexpr int kMaxGroups = 65536;  // NGROUPS_MAX
  if (count < 0 || count > kMaxGroups) return Err(EINVAL);
  c.groups.assign(static_cast<size_t>(count), 0);
  if (count) TRY(task.copy_in(list, c.groups.data(), c.groups.size() * sizeof(gid_t)));
  std::sort(c.groups.begin(), c.groups.end());
  task.set_creds(std::move(c));
  return 0;
}

// ---- Capabilities

namespace {

// The number of 32-bit words of each set, by header version; 0: unknown version, for which the
// preferred one is written back.
Result<int> capability_words(Task& task, UserAddr header, __user_cap_header_struct& h) {
  h = TRY(task.copy_in<__user_cap_header_struct>(header));
  switch (h.version) {
    case _LINUX_CAPABILITY_VERSION_1:
      return 1;
    case _LINUX_CAPABILITY_VERSION_2:
    case _LINUX_CAPABILITY_VERSION_3:
      return 2;
    default:
      TRY(task.copy_out(header, uint32_t{_LINUX_CAPABILITY_VERSION_3}));
      return 0;
  }
}

}  // namespace

Result<int64_t> sys_capget(Task& task, UserInOut header, UserAddr data) {
  __user_cap_header_struct h{};
  const int words = TRY(capability_words(task, header, h));
  if (words == 0) return data ? Result<int64_t>(Err(EINVAL)) : 0;
  if (h.pid < 0) return Err(EINVAL);
  Task* target = h.pid == 0 ? &task : task.kernel().find_task(h.pid);
  if (!target) return Err(ESRCH);
  if (!data) return 0;
  const Credentials& c = target->creds();
  __user_cap_data_struct sets[2];
  for (int i = 0; i < 2; i++) {
    sets[i] = {.effective = static_cast<uint32_t>(c.cap_effective >> (32 * i)),
               .permitted = static_cast<uint32_t>(c.cap_permitted >> (32 * i)),
               .inheritable = static_cast<uint32_t>(c.cap_inheritable >> (32 * i))};
  }
  TRY(task.copy_out(data, sets, sizeof sets[0] * static_cast<size_t>(words)));
  return 0;
}

Result<int64_t> sys_capset(Task& task, UserInOut header, UserAddr data) {
  __user_cap_header_struct h{};
  const int words = TRY(capability_words(task, header, h));
  if (words == 0) return Err(EINVAL);
  if (h.pid != 0 && h.pid != task.tid()) return Err(EPERM);
  __user_cap_data_struct sets[2] = {};
  TRY(task.copy_in(data, sets, sizeof sets[0] * static_cast<size_t>(words)));
  const auto join = [&](auto member) {
    return uint64_t{sets[0].*member} | uint64_t{sets[1].*member} << 32;
  };
  constexpr uint64_t kAll = (uint64_t{1} << (CAP_LAST_CAP + 1)) - 1;
  const uint64_t effective = join(&__user_cap_data_struct::effective) & kAll;
  const uint64_t permitted = join(&__user_cap_data_struct::permitted) & kAll;
  const uint64_t inheritable = join(&__user_cap_data_struct::inheritable) & kAll;
  Credentials c = task.copy_creds();
  // cap_capset() of security/commoncap.c.
  if (!c.has_cap(CAP_SETPCAP) && (inheritable & ~(c.cap_inheritable | c.cap_permitted)))
    return Err(EPERM);
  if (inheritable & ~(c.cap_inheritable | c.cap_bounding)) return Err(EPERM);
  if (permitted & ~c.cap_permitted) return Err(EPERM);
  if (effective & ~permitted) return Err(EPERM);
  c.cap_effective = effective;
  c.cap_permitted = permitted;
  c.cap_inheritable = inheritable;
  c.cap_ambient &= permitted & inheritable;
  task.set_creds(std::move(c));
  return 0;
}

}  // namespace uks
