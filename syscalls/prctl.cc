// prctl.
#include <linux/capability.h>
#include <linux/prctl.h>
#include <linux/securebits.h>

#include <array>
#include <cstring>

#include "gen/syscalls.h"
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"

namespace uks {
namespace {

constexpr size_t kCommSize = 16;  // TASK_COMM_LEN

bool is_capability(uint64_t cap) { return cap <= CAP_LAST_CAP; }

Result<int64_t> set_name(Task& task, uint64_t addr) {
  // strncpy_from_user() of 15 bytes: as far as the NUL.
  auto whole = task.copy_in_string(UserAddr{addr}, kCommSize);
  if (whole) {
    task.comm = std::move(*whole);
    return 0;
  }
  if (whole.error() != ENAMETOOLONG) return Err(whole.error());
  std::array<char, kCommSize> name{};
  TRY(task.copy_in(UserAddr{addr}, name.data(), kCommSize - 1));
  task.comm = name.data();
  return 0;
}

Result<int64_t> get_name(Task& task, uint64_t addr) {
  std::array<char, kCommSize> name{};
  memcpy(name.data(), task.comm.data(), std::min(task.comm.size(), kCommSize - 1));
  TRY(task.copy_out(UserAddr{addr}, name));
  return 0;
}

Result<int64_t> drop_from_bounding(Task& task, uint64_t cap) {
  if (!is_capability(cap)) return Err(EINVAL);
  Credentials c = task.copy_creds();
  if (!c.has_cap(CAP_SETPCAP)) return Err(EPERM);
  c.cap_bounding &= ~(uint64_t{1} << cap);
  task.set_creds(std::move(c));
  return 0;
}

Result<int64_t> ambient(Task& task, uint64_t operation, uint64_t cap, uint64_t arg4,
                        uint64_t arg5) {
  if (arg4 || arg5) return Err(EINVAL);
  Credentials c = task.copy_creds();
  if (operation == PR_CAP_AMBIENT_CLEAR_ALL) {
    if (cap) return Err(EINVAL);
    c.cap_ambient = 0;
    task.set_creds(std::move(c));
    return 0;
  }
  if (!is_capability(cap)) return Err(EINVAL);
  const uint64_t bit = uint64_t{1} << cap;
  switch (operation) {
    case PR_CAP_AMBIENT_IS_SET:
      return (c.cap_ambient & bit) != 0;
    case PR_CAP_AMBIENT_RAISE:
      if (!(c.cap_permitted & c.cap_inheritable & bit) ||
          (c.securebits & SECBIT_NO_CAP_AMBIENT_RAISE)) {
        return Err(EPERM);
      }
      c.cap_ambient |= bit;
      break;
    case PR_CAP_AMBIENT_LOWER:
      c.cap_ambient &= ~bit;
      break;
    default:
      return Err(EINVAL);
  }
  task.set_creds(std::move(c));
  return 0;
}

// cap_task_prctl() of security/commoncap.c.
Result<int64_t> set_securebits(Task& task, uint64_t bits) {
  Credentials c = task.copy_creds();
  const uint64_t locked = c.securebits & SECURE_ALL_LOCKS;
  if (((locked >> 1) & (c.securebits ^ bits)) || (locked & ~bits) ||
      (bits & ~uint64_t{SECURE_ALL_LOCKS | SECURE_ALL_BITS}) || !c.has_cap(CAP_SETPCAP)) {
    return Err(EPERM);
  }
  c.securebits = static_cast<uint32_t>(bits);
  task.set_creds(std::move(c));
  return 0;
}

Result<int64_t> set_keep_caps(Task& task, uint64_t keep) {
  if (keep > 1) return Err(EINVAL);
  Credentials c = task.copy_creds();
  if (c.securebits & SECBIT_KEEP_CAPS_LOCKED) return Err(EPERM);
  c.securebits = keep ? c.securebits | SECBIT_KEEP_CAPS : c.securebits & ~SECBIT_KEEP_CAPS;
  task.set_creds(std::move(c));
  return 0;
}

Result<int64_t> set_no_new_privs(Task& task, uint64_t on, bool rest) {
  if (on != 1 || rest) return Err(EINVAL);
  Credentials c = task.copy_creds();
  c.no_new_privs = true;
  task.set_creds(std::move(c));
  return 0;
}

}  // namespace

Result<int64_t> sys_prctl(Task& task, int option, uint64_t arg2, uint64_t arg3, uint64_t arg4,
                          uint64_t arg5) {
  ThreadGroup& group = task.group();
  const bool rest = arg3 || arg4 || arg5;
  switch (option) {
    case PR_SET_NAME:
      return set_name(task, arg2);
    case PR_GET_NAME:
      return get_name(task, arg2);
    case PR_SET_PDEATHSIG:
      if (arg2 > static_cast<uint64_t>(kSignalCount)) return Err(EINVAL);
      task.parent_death_signal = static_cast<int>(arg2);
      return 0;
    case PR_GET_PDEATHSIG:
      TRY(task.copy_out(UserAddr{arg2}, int32_t{task.parent_death_signal}));
      return 0;
    case PR_GET_DUMPABLE:
      return group.dumpable ? 1 : 0;
    case PR_SET_DUMPABLE:
      if (arg2 > 1) return Err(EINVAL);
      group.dumpable = arg2 == 1;
      return 0;
    case PR_SET_NO_NEW_PRIVS:
      return set_no_new_privs(task, arg2, rest);
    case PR_GET_NO_NEW_PRIVS:
      if (arg2 || rest) return Err(EINVAL);
      return task.creds().no_new_privs ? 1 : 0;
    case PR_SET_KEEPCAPS:
      return set_keep_caps(task, arg2);
    case PR_GET_KEEPCAPS:
      return (task.creds().securebits & SECBIT_KEEP_CAPS) != 0;
    case PR_SET_CHILD_SUBREAPER:
      group.is_child_subreaper = arg2 != 0;
      return 0;
    case PR_GET_CHILD_SUBREAPER:
      TRY(task.copy_out(UserAddr{arg2}, int32_t{group.is_child_subreaper}));
      return 0;
    case PR_CAPBSET_READ:
      if (!is_capability(arg2)) return Err(EINVAL);
      return (task.creds().cap_bounding >> arg2) & 1;
    case PR_CAPBSET_DROP:
      return drop_from_bounding(task, arg2);
    case PR_CAP_AMBIENT:
      return ambient(task, arg2, arg3, arg4, arg5);
    case PR_GET_SECUREBITS:
      return task.creds().securebits;
    case PR_SET_SECUREBITS:
      return set_securebits(task, arg2);
    case PR_SET_TIMERSLACK:
      task.timer_slack_ns = arg2 == 0 || arg2 > INT32_MAX ? 50'000 : static_cast<int>(arg2);
      return 0;
    case PR_GET_TIMERSLACK:
      return task.timer_slack_ns;
    case PR_GET_SECCOMP:
      return 0;
    case PR_GET_TIMING:
      return PR_TIMING_STATISTICAL;
    case PR_SET_TIMING:
      return arg2 == PR_TIMING_STATISTICAL ? Result<int64_t>(0) : Err(EINVAL);
    case PR_GET_THP_DISABLE:
      return arg2 || rest ? Result<int64_t>(Err(EINVAL)) : 0;
    case PR_GET_TSC:
      TRY(task.copy_out(UserAddr{arg2}, int32_t{PR_TSC_ENABLE}));
      return 0;
    case PR_GET_TID_ADDRESS:
      TRY(task.copy_out(UserAddr{arg2}, task.clear_child_tid.value));
      return 0;
    case PR_MCE_KILL_GET:
      return arg2 || rest ? Result<int64_t>(Err(EINVAL)) : PR_MCE_KILL_DEFAULT;
    // Everything else, PR_SET_VMA names, PR_SET_MM, PR_SET_PTRACER and PR_SET_THP_DISABLE included,
    // is what a kernel built without them answers.
    default:
      return Err(EINVAL);
  }
}

}  // namespace uks
