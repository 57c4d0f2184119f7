#include "platform/trap/zygote.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "platform/base/close_descriptors.h"
#include "platform/base/fd_message.h"
#include "platform/channel/cpu_flags.h"
#include "platform/host/features.h"
#include "platform/trap/stub_filter.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif

namespace uks {
namespace {

// The socket in the zygote until the filter stands; 0 is for the listener, or for the stub's end of
// the donations.
constexpr int kSocket = 3;
int to_sentry = -1;  // where it is now

struct ListenerMessage {
  int32_t error;       // errno of a step that failed, or 0
  int32_t helper_pid;  // the process that sent the listener: gone before the zygote goes on
};

struct KernelSigaction {
  uint64_t handler;
  uint64_t flags;
  uint64_t restorer;
  uint64_t mask;
};

bool tell_sentry(const ListenerMessage& message, int fd = -1) {
  return send_message(to_sentry, &message, sizeof message, fd).has_value();
}

[[noreturn]] void fail(int error) {
  (void)tell_sentry({error, 0});
  _exit(1);
}

// Sends descriptor 0 as soon as it exists. Runs in a process that shares the zygote's descriptors,
// since the zygote itself cannot send any more once its filter stands (PITFALLS 7).
[[noreturn]] void send_listener(pid_t sentry) {
  // Its parent is the zygote's: it ends with the sentry, and must not wait for a zygote that does.
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  const ListenerMessage message{0, static_cast<int32_t>(syscall(SYS_getpid))};
  for (int tries = 0; tries < 200'000 && syscall(SYS_getppid) == sentry; tries++) {
    if (syscall(SYS_fcntl, 0, F_GETFD) >= 0) {
      (void)tell_sentry(message, 0);
      break;
    }
    timespec pause{0, 20'000};
    syscall(SYS_nanosleep, &pause, nullptr);
  }
  syscall(SYS_close, 0);
  syscall(SYS_close, kSocket);
  for (;;) syscall(SYS_exit_group, 0);
}

void set_handler(int signo, uint64_t handler, uint64_t restorer, uint64_t mask,
                 uint64_t extra_flags) {
  constexpr uint64_t kRestorer = 0x04000000;
  KernelSigaction action{handler, SA_SIGINFO | SA_ONSTACK | kRestorer | extra_flags, restorer,
                         mask};
  if (syscall(SYS_rt_sigaction, signo, &action, nullptr, 8) != 0) fail(errno);
}

void* map_at(uint64_t addr, uint64_t size, int prot, int flags, int fd = -1) {
  void* p = mmap(reinterpret_cast<void*>(addr), size, prot, flags | MAP_FIXED, fd, 0);
  if (p == MAP_FAILED) fail(errno);
  return p;
}

void place_descriptors(const Zygote& zygote, int socket) {
  const bool traced = zygote.way == HandOff::kTracer;
  const bool placed =
      !traced || dup2(zygote.donations[1].get(), 0) == 0;  // before its own number may be taken
  if (socket != kSocket && dup2(socket, kSocket) < 0) _exit(1);
  to_sentry = kSocket;
  if (!placed) fail(EMFILE);
  if (!traced) close(0);
  close(1), close(2);
  close_descriptors(kSocket + 1);
}

// The last steps with a tracer: it has to have attached before the filter asks it for anything.
[[noreturn]] void enter_traced(const sock_fprog& program, uint64_t stack, uint64_t entry) {
  char go;
  if (syscall(SYS_read, kSocket, &go, 1) != 1) _exit(1);
  if (!tell_sentry({0, 0})) _exit(1);
  syscall(SYS_close, kSocket);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) _exit(1);
  __asm__ volatile("mov %0, %%rsp\n\txor %%ebp, %%ebp\n\tjmp *%1"
                   :
                   : "r"(stack), "r"(entry)
                   : "memory");
  __builtin_unreachable();
}

[[noreturn]] void be_zygote(const StubLayout& layout, const bpf::Program& filter,
                            const Zygote& zygote, int socket, pid_t sentry) {
  to_sentry = socket;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "uks-stub");
  if (getppid() != sentry) _exit(1);
  // Memory of the stub's region.
  const StubImage image = stub_image();
  const uint64_t base = layout.base;
  void* text =
      map_at(base, UKS_STUB_TEXT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  memcpy(text, image.data, image.size);
  if (mprotect(text, UKS_STUB_TEXT_SIZE, PROT_READ | PROT_EXEC) != 0) fail(errno);
  // Linux 6.10 can make that irrevocable; without it a guest may harm its own stub, nothing else.
  if (!is_masked(Feature::kMseal)) (void)syscall(SYS_mseal, text, UKS_STUB_TEXT_SIZE, 0);
  auto* process = static_cast<char*>(
      map_at(base + UKS_STUB_PROCESS, 0x1000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS));
  reinterpret_cast<uks_stub_cpu*>(process + UKS_STUB_CPU_OFFSET)->no_fsgsbase = !has_fsgsbase();
  map_at(base + UKS_STUB_WINDOW, UKS_WINDOW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
         zygote.window.fd());
  madvise(reinterpret_cast<void*>(base + UKS_STUB_WINDOW), UKS_WINDOW_SIZE, MADV_DONTFORK);
  auto* area = static_cast<char*>(map_at(base + UKS_STUB_AREAS, uint64_t{UKS_SLOTS} * UKS_AREA_SIZE,
                                         PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE));
  auto* start = reinterpret_cast<uks_zygote_start*>(area + UKS_ZYGOTE_KEEP);
  start->count = layout.keep.size();
  for (size_t i = 0; i < layout.keep.size(); i++) start->keep[i] = layout.keep[i];

  place_descriptors(zygote, socket);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);

  // Signals: the stub's handlers on area 0's alternate stack. Kicks stay blocked until guest code
  // runs: the frames that lead there unblock them.
  stack_t alt{};
  alt.ss_sp = area + UKS_AREA_STACK_TOP;
  alt.ss_size = UKS_AREA_SIZE - UKS_AREA_STACK_TOP;
  if (sigaltstack(&alt, nullptr) != 0) fail(errno);
  const uks_stub_header& header = layout.header;
  const uint64_t restorer = base + header.restorer;
  const uint64_t urgent = uint64_t{1} << (SIGURG - 1);
  for (int signo = 1; signo < 65; signo++) {
    if (signo == SIGKILL || signo == SIGSTOP) continue;
    KernelSigaction ignore{};
    (void)syscall(SYS_rt_sigaction, signo, &ignore, nullptr, 8);
  }
  set_handler(SIGSYS, base + header.syscall_trap, restorer, urgent, 0);
  for (int signo : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) {
    // Not blocked in its own handler: the stub's copies may fault while it builds a frame.
    set_handler(signo, base + header.fault_trap, restorer, urgent, SA_NODEFER);
  }
  set_handler(SIGURG, base + header.kick_trap, restorer, urgent, 0);
  sigset_t kicks;
  sigemptyset(&kicks);
  sigaddset(&kicks, SIGURG);
  sigprocmask(SIG_SETMASK, &kicks, nullptr);

  sock_fprog program{static_cast<unsigned short>(filter.size()),
                     const_cast<sock_filter*>(filter.data())};

  // glibc registered rseq in this thread's TLS, which is about to be unmapped: the kernel would
  // kill us.
  if (__rseq_size != 0) {
    auto* rseq = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
    (void)syscall(SYS_rseq, rseq, sizeof(struct rseq), RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
  }
  syscall(SYS_set_tid_address, nullptr);
  syscall(SYS_set_robust_list, nullptr, sizeof(uint64_t) * 3);

  // Everything the last steps need is in registers or on this stack by now.
  uint64_t entry = base + header.zygote_entry;
  uint64_t stack = reinterpret_cast<uint64_t>(area) + UKS_AREA_STACK_TOP - 16;
  if (zygote.way == HandOff::kTracer) enter_traced(program, stack, entry);
  const long helper =
      syscall(SYS_clone, CLONE_FILES | CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (helper == 0) send_listener(sentry);
  if (helper < 0) fail(errno);
  const long listener =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
              SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
  if (listener != 0) {
    if (listener < 0) fail(errno);
    fail(EBUSY);
  }
  // Registers by name: neither operand may be rbp.
  __asm__ volatile("mov %0, %%rsp\n\txor %%ebp, %%ebp\n\tjmp *%1"
                   :
                   : "D"(stack), "S"(entry)
                   : "memory");
  __builtin_unreachable();
}

pid_t fork_zygote() {
#ifdef __SANITIZE_THREAD__
  // After fork(3) the run-time library starts its background thread anew, in memory that is about
  // to be unmapped.
  return _Fork();
#else
  return fork();
#endif
}

}  // namespace

Result<Zygote> begin_zygote(const StubLayout& layout, const bpf::Program& filter, HandOff way) {
  // What kernels say that lack these.
  if (way == HandOff::kListener && is_masked(Feature::kNotify)) return Err(ENOSYS);
  if (way == HandOff::kListener && is_masked(Feature::kWaitKillable)) return Err(EINVAL);
  Zygote zygote;
  zygote.way = way;
  zygote.window = TRY(Window::create());
  int pair[2];
  if (way == HandOff::kTracer) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return HostErr();
    for (int i = 0; i < 2; i++) zygote.donations[i].reset(pair[i]);
  }
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return HostErr();
  UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  const pid_t sentry = getpid();
  zygote.pid = fork_zygote();
  if (zygote.pid < 0) return HostErr();
  if (zygote.pid == 0) be_zygote(layout, filter, zygote, theirs.get(), sentry);
  zygote.socket = std::move(ours);
  return zygote;
}

Result<void> finish_zygote(Zygote& zygote) {
  const UniqueFd ours = std::move(zygote.socket);
  if (zygote.way == HandOff::kTracer && send(ours.get(), "", 1, MSG_NOSIGNAL) != 1)
    return HostErr();
  ListenerMessage message{};
  UniqueFd listener;
  if (TRY(receive_message(ours.get(), &message, sizeof message, listener)) != sizeof message)
    return Err(EPROTO);
  if (message.error) return Err(message.error);
  if (zygote.way == HandOff::kTracer) return {};
  if (!listener) return Err(EPROTO);
  zygote.listener = std::move(listener);
  // The helper shares the zygote's descriptors: when it is gone, so are the zygote's own
  // references.
  while (waitpid(message.helper_pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {};
}

void abandon_zygote(Zygote& zygote) {
  kill(zygote.pid, SIGKILL);
  while (waitpid(zygote.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace uks
