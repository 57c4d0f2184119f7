// processes/*: making, running and ending them.
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "bench/micro/unit.h"

namespace uks::bench {
namespace {

void fork_wait(benchmark::State& state) {
  for (auto _ : state) {
    const pid_t child = fork();
    if (child == 0) {
      _exit(0);
    }
    int status = 0;
    if (failed(state, child < 0 || waitpid(child, &status, 0) != child || status != 0, "fork")) {
      return;
    }
  }
}
BENCHMARK(fork_wait)->Name("processes/fork_wait")->UseRealTime();

void spawn(benchmark::State& state, const char* path) {
  char* const arguments[] = {const_cast<char*>(path), nullptr};
  for (auto _ : state) {
    pid_t child = 0;
    int status = 0;
    errno = posix_spawn(&child, path, nullptr, nullptr, arguments, environ);
    if (failed(state, errno != 0 || waitpid(child, &status, 0) != child || status != 0, path)) {
      return;
    }
  }
}
BENCHMARK_CAPTURE(spawn, true, "/bin/true")->Name("processes/spawn_true")->UseRealTime();

void* no_work(void*) { return nullptr; }

void thread_join(benchmark::State& state) {
  for (auto _ : state) {
    pthread_t thread{};
    errno = pthread_create(&thread, nullptr, no_work, nullptr);
    if (failed(state, errno != 0, "pthread_create")) {
      return;
    }
    pthread_join(thread, nullptr);
  }
}
BENCHMARK(thread_join)->Name("processes/thread_join")->UseRealTime();

void on_signal(int) {}

void signal_self(benchmark::State& state) {
  std::signal(SIGUSR1, on_signal);
  for (auto _ : state) {
    if (failed(state, raise(SIGUSR1) != 0, "raise")) {
      return;
    }
  }
}
BENCHMARK(signal_self)->Name("processes/signal_self")->UseRealTime();

}  // namespace
}  // namespace uks::bench
