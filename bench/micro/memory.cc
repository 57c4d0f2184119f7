// memory/*: mapping and first touches, by page.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "bench/micro/unit.h"

namespace uks::bench {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kPages = 1024;

void map_unmap(benchmark::State& state) {
  for (auto _ : state) {
    void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (failed(state, page == MAP_FAILED, "mmap")) {
      return;
    }
    munmap(page, kPage);
  }
}
BENCHMARK(map_unmap)->Name("memory/map_unmap")->UseRealTime();

// Without huge pages, so that a fault is a fault. The reported time is that of one page, mapping
// and unmapping included.
void touch_anonymous(benchmark::State& state) {
  while (state.KeepRunningBatch(kPages)) {
    void* pages =
        mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (failed(state, pages == MAP_FAILED, "mmap")) {
      return;
    }
    madvise(pages, kPages * kPage, MADV_NOHUGEPAGE);
    for (size_t page = 0; page < kPages; ++page) {
      static_cast<volatile char*>(pages)[page * kPage] = 1;
    }
    munmap(pages, kPages * kPage);
  }
}
BENCHMARK(touch_anonymous)->Name("memory/touch_page")->UseRealTime();

void touch_file(benchmark::State& state) {
  constexpr const char* kName = "bench_micro.map";
  const int file = open(kName, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
  const std::vector<char> data(kPages * kPage, 'x');
  if (failed(state, file < 0 || write(file, data.data(), data.size()) != ssize_t(data.size()),
             kName)) {
    return;
  }
  while (state.KeepRunningBatch(kPages)) {
    void* pages = mmap(nullptr, kPages * kPage, PROT_READ, MAP_SHARED, file, 0);
    if (failed(state, pages == MAP_FAILED, "mmap")) {
      break;
    }
    for (size_t page = 0; page < kPages; ++page) {
      const char byte = static_cast<volatile char*>(pages)[page * kPage];
      benchmark::DoNotOptimize(byte);
    }
    munmap(pages, kPages * kPage);
  }
  close(file);
  unlink(kName);
}
BENCHMARK(touch_file)->Name("memory/touch_file_page")->UseRealTime();

// A fork whose child writes to 1,024 pages of the parent; by page.
void copy_on_write(benchmark::State& state) {
  const std::unique_ptr<char[]> data(new char[kPages * kPage]());
  while (state.KeepRunningBatch(kPages)) {
    const pid_t child = fork();
    if (child == 0) {
      for (size_t page = 0; page < kPages; ++page) {
        static_cast<volatile char*>(data.get())[page * kPage] = 1;
      }
      _exit(0);
    }
    int status = 0;
    if (failed(state, child < 0 || waitpid(child, &status, 0) != child || status != 0, "fork")) {
      return;
    }
  }
}
BENCHMARK(copy_on_write)->Name("memory/copy_on_write_page")->UseRealTime();

}  // namespace
}  // namespace uks::bench
