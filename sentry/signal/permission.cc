#include "sentry/signal/permission.h"

namespace uks {

Result<void> check_kill_permission(Task& task, ThreadGroup& target, int signo) {
  // kill(2): same real or effective uid as the target's real or saved one, CAP_KILL, or SIGCONT
  // within the session.
  if (target.pid == 1) {  // the sandbox's own init, root's: only its existence can be asked for
    if (signo == 0 || task.creds().has_cap(5)) return {};
    return Err(EPERM);
  }
  const Credentials& creds = task.creds();
  if (creds.has_cap(5) || target.threads.empty()) return {};  // 5: CAP_KILL
  const Credentials& other = target.threads.front()->creds();
  if (creds.euid == other.suid || creds.euid == other.ruid || creds.ruid == other.suid ||
      creds.ruid == other.ruid) {
    return {};
  }
  if (signo == SIGCONT && task.group().session == target.session) return {};
  return Err(EPERM);
}

SignalInfo user_signal(Task& task, int signo, int code) {
  SignalInfo info;
  info.signo = signo;
  info.code = code;
  info.rt.pid = task.tgid();
  info.rt.uid = task.creds().ruid;
  return info;
}

}  // namespace uks
