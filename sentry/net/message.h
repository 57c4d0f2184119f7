// struct msghdr and its control messages, between a guest and the sockets.
#pragma once
#include "sentry/net/socket.h"
#include "sentry/task/task.h"
#include "sentry/usermem/guest_io.h"

namespace uks {

// The kernel's struct user_msghdr on x86-64.
struct GuestMsghdr {
  uint64_t name;
  int32_t name_length;
  int32_t pad;
  uint64_t iov;
  uint64_t iov_count;
  uint64_t control;
  uint64_t control_length;
  uint32_t flags;
  uint32_t pad2;
};
static_assert(sizeof(GuestMsghdr) == 56);

// Where results go. Direct writes reach the guest at once; the others come with the reply, and are
// lost if the call blocks after them.
class GuestWriter {
 public:
  GuestWriter(Task& task, bool direct) : task_(task), direct_(direct) {}
  [[nodiscard]] Result<void> put(UserAddr to, const void* from, size_t n);
  // For the data, any amount: a message comes whole.
  GuestSink make_sink(UserIovec ranges) { return {task_, std::move(ranges), SIZE_MAX, direct_}; }

 private:
  Task& task_;
  bool direct_;
};

// A sockaddr argument. EINVAL: a length that none has. Empty for length 0.
Result<RawAddress> copy_in_address(Task& task, UserAddr at, int64_t length);
// As move_addr_to_user(): at most what the int at `length_at` allows, and the true length there.
Result<void> copy_out_address(GuestWriter& writer, UserAddr at, int allowed, UserAddr length_at,
                              const RawAddress& address);

// Reads the header and its vector. EMSGSIZE: more than UIO_MAXIOV pieces.
struct Message {
  GuestMsghdr header;
  UserIovec ranges;
};
Result<Message> copy_in_message(Task& task, UserAddr at);
// What sendmsg() is told beside the data: SCM_RIGHTS and SCM_CREDENTIALS.
Result<void> parse_control(Task& task, Socket& socket, const GuestMsghdr& header,
                           SendRequest& request);
// Gives descriptors, credentials and the like to the guest. Returns MSG_CTRUNC or 0, and the length
// that msg_controllen becomes.
struct ControlResult {
  int flags = 0;
  uint64_t length = 0;
};
Result<ControlResult> deliver_control(Task& task, GuestWriter& writer, Socket& socket,
                                      const GuestMsghdr& header, RecvRequest& request,
                                      bool close_on_exec);

// Drops `skip` bytes of the front.
void skip_bytes(UserIovec& ranges, uint64_t skip);
uint64_t total_bytes(const UserIovec& ranges);

}  // namespace uks
