// ipc/*: a byte there and back between two processes, and 256 KiB one way.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "bench/micro/unit.h"

namespace uks::bench {
namespace {

// Two ends of a two-way connection: [0] and [2] are what the parent reads and writes, [1] and [3]
// what the child does.
struct Link {
  int parent_read = -1, parent_write = -1, child_read = -1, child_write = -1;
  bool ok() const {
    return parent_read >= 0 && parent_write >= 0 && child_read >= 0 && child_write >= 0;
  }
  void close_all() const {
    for (const int fd : {parent_read, parent_write, child_read, child_write}) {
      if (fd >= 0) {
        close(fd);
      }
    }
  }
};

Link make_pipes() {
  int to_child[2] = {-1, -1};
  int to_parent[2] = {-1, -1};
  if (pipe(to_child) != 0 || pipe(to_parent) != 0) {
    return {};
  }
  return {to_parent[0], to_child[1], to_child[0], to_parent[1]};
}

Link make_unix() {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
    return {};
  }
  return {ends[0], dup(ends[0]), ends[1], dup(ends[1])};
}

Link make_tcp() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, any, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, any, &length) != 0) {
    return {};
  }
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(client, any, length) != 0) {
    return {};
  }
  const int server = accept(listener, nullptr, nullptr);
  close(listener);
  const int on = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {client, dup(client), server, dup(server)};
}

void ping_pong(benchmark::State& state, Link (*make)()) {
  const Link link = make();
  if (failed(state, !link.ok(), "connection")) {
    link.close_all();
    return;
  }
  const pid_t child = fork();
  char byte = 0;
  if (child == 0) {
    close(link.parent_write);
    close(link.parent_read);
    while (read(link.child_read, &byte, 1) == 1 && write(link.child_write, &byte, 1) == 1) {
    }
    _exit(0);
  }
  for (auto _ : state) {
    if (failed(state, write(link.parent_write, &byte, 1) != 1, "write") ||
        failed(state, read(link.parent_read, &byte, 1) != 1, "read")) {
      break;
    }
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  link.close_all();
}
BENCHMARK_CAPTURE(ping_pong, pipe, make_pipes)->Name("ipc/pipe_ping_pong")->UseRealTime();
BENCHMARK_CAPTURE(ping_pong, unix, make_unix)->Name("ipc/unix_ping_pong")->UseRealTime();
BENCHMARK_CAPTURE(ping_pong, tcp, make_tcp)->Name("ipc/tcp_ping_pong")->UseRealTime();

// The child takes in whatever comes and answers a byte for every kChunk bytes.
void stream(benchmark::State& state, Link (*make)()) {
  constexpr size_t kChunk = 1 << 18;
  const Link link = make();
  if (failed(state, !link.ok(), "connection")) {
    link.close_all();
    return;
  }
  std::vector<char> data(kChunk);
  const pid_t child = fork();
  char byte = 0;
  if (child == 0) {
    close(link.parent_write);
    close(link.parent_read);
    for (size_t left = kChunk;;) {
      const ssize_t got = read(link.child_read, data.data(), left);
      if (got <= 0) {
        _exit(0);
      }
      left -= static_cast<size_t>(got);
      if (left == 0) {
        left = kChunk;
        if (write(link.child_write, &byte, 1) != 1) {
          _exit(0);
        }
      }
    }
  }
  for (auto _ : state) {
    bool ok = true;
    for (size_t sent = 0; ok && sent < kChunk;) {
      const ssize_t put = write(link.parent_write, data.data() + sent, kChunk - sent);
      ok = put > 0;
      sent += ok ? static_cast<size_t>(put) : 0;
    }
    if (failed(state, !ok || read(link.parent_read, &byte, 1) != 1, "stream")) {
      break;
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * kChunk);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  link.close_all();
}
BENCHMARK_CAPTURE(stream, pipe, make_pipes)->Name("ipc/pipe_256k")->UseRealTime();
BENCHMARK_CAPTURE(stream, unix, make_unix)->Name("ipc/unix_256k")->UseRealTime();
BENCHMARK_CAPTURE(stream, tcp, make_tcp)->Name("ipc/tcp_256k")->UseRealTime();

}  // namespace
}  // namespace uks::bench
