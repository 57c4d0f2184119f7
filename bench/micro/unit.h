// What the benchmarks of bench_micro share.
#pragma once

#include <benchmark/benchmark.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace uks::bench {

// A call that fails must not count as a fast one: the benchmark ends with the message.
inline bool failed(benchmark::State& state, bool failure, const char* what) {
  if (failure) {
    state.SkipWithError((std::string(what) + ": " + std::strerror(errno)).c_str());
  }
  return failure;
}

}  // namespace uks::bench
