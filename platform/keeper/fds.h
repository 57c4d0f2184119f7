// The descriptors that the keeper hands to the roles it starts. A role inherits these and no
// others.
#pragma once

namespace uks::keeper {

// 0, 1, 2: the sentry gets the caller's standard streams as they are (SandboxConfig::stdio_open
// says which of them exist; the others are /dev/null place holders the guest may not see). The
// gofer has /dev/null as 0 and 1, and the log as 2.
inline constexpr int kConfigFd = 3;  // memfd: the role's configuration, once kStartFd says so
inline constexpr int kLogFd = 4;     // where log lines go: the log file, or stderr
inline constexpr int kKeeperFd = 5;  // sentry only: SOCK_SEQPACKET to the keeper (protocol.h)
inline constexpr int kStraceFd = 6;  // sentry only, with --strace: where its lines go
inline constexpr int kStartFd =
    7;  // a pipe: one byte says that kConfigFd is complete (start.h); its end, to give up
inline constexpr int kFirstGoferFd = 8;  // 8 … 8 + kGoferConnections - 1: SOCK_SEQPACKET pairs
inline constexpr int kGoferConnections = 4;

}  // namespace uks::keeper
