// Handlers for watching: the host tells the sentry of changes that others make.
#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <string>

#include "gofer/server/host_fs.h"
#include "gofer/server/server.h"

namespace uks::gofer {

Result<void> Server::watch(Reader& in, Writer& out, UniqueFd& fd) {
  const NodeId id = in.u64();
  const uint32_t flags = in.u32();
  if (!in.done() || (flags & ~(kWatchAll | kWatchInstance))) return Err(EINVAL);
  std::shared_lock lock(names_lock_);
  const Handle file = TRY(find(id));
  if (file.at.detached) return Err(ESTALE);
  if (file.at.rules.action == Action::kDeny || file.at.tree().kernel_interface) return Err(EACCES);
  // Events name what happened: nobody is to learn a hidden name by them.
  if (rules_.may_hide_below(file.at.rules)) return Err(EPERM);
  if ((flags & kWatchAll) && !is_changed_here_only(file.fd)) return Err(EOPNOTSUPP);
  const std::lock_guard alone(watching_);
  if (watches_ == ((flags & kWatchInstance) != 0)) return Err(watches_ ? EBUSY : EINVAL);
  if (!watches_) {
    fd = UniqueFd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!fd || ::dup3(fd.get(), inotify_.get(), O_CLOEXEC) < 0) return HostErr();
    watches_ = true;
  }
  // The magic link leads to the very inode that was examined.
  const std::string path = "/proc/self/fd/" + inode_name(file.fd);
  const int watch = ::inotify_add_watch(inotify_.get(), path.c_str(), kWatchMask);
  if (watch < 0 && fd) {
    // Nobody gets it: the next one to watch does.
    const int error = errno;
    watches_ = ::dup3(proc_fd_.get(), inotify_.get(), O_CLOEXEC) < 0;
    return Err(error);
  }
  if (watch < 0) return HostErr();
  out.i32(watch);
  return {};
}

Result<void> Server::unwatch(Reader& in) {
  const int watch = in.i32();
  if (!in.done()) return Err(EINVAL);
  const std::lock_guard alone(watching_);
  if (!watches_ || ::inotify_rm_watch(inotify_.get(), watch) < 0) return Err(EINVAL);
  return {};
}

}  // namespace uks::gofer
