// set*id, capabilities and the process attributes that go with them, by direct system calls.
#include "platform/host/identity.h"

#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uks {
namespace {

constexpr uid_t kFirstSentryId = 64000;
constexpr uid_t kSentryIds = 1000;

// Takes CAP_SETPCAP, so it comes before the change of ids; EINVAL marks the end of what the kernel
// knows.
void empty_bounding_set() {
  for (int cap = 0; cap < 64; ++cap) {
    if (::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) break;
  }
}

Result<void> drop_capabilities() {
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capset, &header, none) != 0) return HostErr();
  return {};
}

Result<void> change_ids(SentryIdentity id) {
  if (::setgroups(0, nullptr) != 0) return HostErr();
  if (::setresgid(id.gid, id.gid, id.gid) != 0) return HostErr();
  if (::setresuid(id.uid, id.uid, id.uid) != 0) return HostErr();
  return {};
}

}  // namespace

SentryIdentity sentry_identity_for(pid_t sentry) {
  const uid_t id = kFirstSentryId + static_cast<uid_t>(sentry) % kSentryIds;
  return {id, id};
}

Result<void> die_with_parent(pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return HostErr();
  if (::getppid() != parent) ::_exit(125);
  return {};
}

Result<void> drop_to_sentry_identity() {
  const pid_t parent = ::getppid();
  empty_bounding_set();
  if (::geteuid() == 0) {
    const Result<void> changed = change_ids(sentry_identity_for(::getpid()));
    // EINVAL: not mapped in this user namespace. EPERM: without CAP_SETUID or CAP_SETGID, or
    // setgroups denied in the namespace. "Root" is then some ordinary user, or has no power worth
    // the name.
    if (!changed && changed.error() != EINVAL && changed.error() != EPERM) return changed;
  }
  TRY(drop_capabilities());
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return HostErr();
  if (::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return HostErr();
  return die_with_parent(parent);
}

}  // namespace uks
