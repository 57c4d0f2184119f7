// One message, and with it perhaps one descriptor (SCM_RIGHTS), over a socket: the same for all
// roles.
#pragma once
#include <cstddef>

#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks {

// `fd` -1: none. `flags`: of sendmsg(2); never a SIGPIPE, goes on after EINTR. The host's errno.
Result<void> send_message(int socket, const void* data, size_t size, int fd = -1, int flags = 0);
// The size of the message (0: the other end is gone). The first descriptor that came along goes to
// `fd`, a hostile peer's others are closed. `flags`: of recvmsg(2); goes on after EINTR. EMSGSIZE:
// it was longer than `size`; the host's errno.
Result<size_t> receive_message(int socket, void* data, size_t size, UniqueFd& fd, int flags = 0);

}  // namespace uks
