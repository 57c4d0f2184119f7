// Handlers for watching: the host tells the sentry of changes that others make.
#include <sys/inotify.h>

#include <string>

#include "gofer/server/server.h"

namespace uks::gofer {

Result<void> Server::watch(Reader& in, Writer& out, UniqueFd& fd) {
  const NodeId id = in.u64();
  const bool wants_fd = in.u32() != 0;
  if (!in.done()) return Err(EINVAL);
  if (!inotify_) return Err(EMFILE);
  std::shared_lock lock(names_lock_);
  const Handle file = TRY(find(id));
  if (file.at.detached) return Err(ESTALE);
  if (file.at.rules.action == Action::kDeny || file.at.tree().kernel_interface) return Err(EACCES);
  // Events name what happened: nobody is to learn a hidden name by them.
  if (rules_.may_hide_below(file.at.rules)) return Err(EPERM);
  // The magic link leads to the very inode that was examined.
  const std::string path = "/proc/self/fd/" + inode_name(file.fd);
  const int watch = ::inotify_add_watch(inotify_.get(), path.c_str(), kWatchMask);
  if (watch < 0) return HostErr();
  if (wants_fd) {
    const std::lock_guard alone(giving_);
    if (!inotify_to_give_) return Err(EBUSY);
    fd = std::move(inotify_to_give_);
  }
  out.i32(watch);
  return {};
}

Result<void> Server::unwatch(Reader& in) {
  const int watch = in.i32();
  if (!in.done()) return Err(EINVAL);
  if (::inotify_rm_watch(inotify_.get(), watch) < 0) return HostErr();
  return {};
}

}  // namespace uks::gofer
