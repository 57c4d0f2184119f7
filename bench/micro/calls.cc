// calls/*: one system call each, or the shortest useful pair.
#include <dirent.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

#include "bench/micro/unit.h"

namespace uks::bench {
namespace {

constexpr const char* kFile = "bench_micro.file";

// A file of the work directory with 64 KiB in it.
class File {
 public:
  File() : fd_(open(kFile, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644)) {
    const std::string data(65536, 'x');
    if (fd_ >= 0 && write(fd_, data.data(), data.size()) != static_cast<ssize_t>(data.size())) {
      close(fd_);
      fd_ = -1;
    }
  }
  ~File() {
    close(fd_);
    unlink(kFile);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

void getpid_call(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(syscall(SYS_getpid));
  }
}
BENCHMARK(getpid_call)->Name("calls/getpid");

void clock_call(benchmark::State& state) {
  timespec time{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(clock_gettime(CLOCK_MONOTONIC, &time));
  }
}
BENCHMARK(clock_call)->Name("calls/clock_gettime");

void stat_path(benchmark::State& state, const char* path, bool exists) {
  const File file;
  struct stat status{};
  for (auto _ : state) {
    if (failed(state, (stat(path, &status) == 0) != exists, path)) {
      return;
    }
  }
}
BENCHMARK_CAPTURE(stat_path, work, kFile, true)->Name("calls/stat_work");
BENCHMARK_CAPTURE(stat_path, root, "/usr/bin/env", true)->Name("calls/stat_root");
BENCHMARK_CAPTURE(stat_path, miss, "/usr/lib/no-such-file", false)->Name("calls/stat_miss");

void fstat_call(benchmark::State& state) {
  const File file;
  struct stat status{};
  for (auto _ : state) {
    if (failed(state, fstat(file.fd(), &status) != 0, "fstat")) {
      return;
    }
  }
}
BENCHMARK(fstat_call)->Name("calls/fstat");

void open_close(benchmark::State& state) {
  const File file;
  for (auto _ : state) {
    const int fd = open(kFile, O_RDONLY | O_CLOEXEC);
    if (failed(state, fd < 0, "open")) {
      return;
    }
    close(fd);
  }
}
BENCHMARK(open_close)->Name("calls/open_close");

void read_4k(benchmark::State& state) {
  const File file;
  char data[4096];
  for (auto _ : state) {
    if (failed(state, pread(file.fd(), data, sizeof data, 0) != sizeof data, "pread")) {
      return;
    }
  }
}
BENCHMARK(read_4k)->Name("calls/pread_4k");

void write_4k(benchmark::State& state) {
  const File file;
  const char data[4096] = {};
  for (auto _ : state) {
    if (failed(state, pwrite(file.fd(), data, sizeof data, 0) != sizeof data, "pwrite")) {
      return;
    }
  }
}
BENCHMARK(write_4k)->Name("calls/pwrite_4k");

void create_unlink(benchmark::State& state, const char* path) {
  for (auto _ : state) {
    const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (failed(state, fd < 0, path)) {
      return;
    }
    close(fd);
    unlink(path);
  }
}
BENCHMARK_CAPTURE(create_unlink, work, "bench_micro.new")->Name("calls/create_unlink_work");
BENCHMARK_CAPTURE(create_unlink, tmp, "/tmp/bench_micro.new")->Name("calls/create_unlink_tmp");

void list_directory(benchmark::State& state) {
  for (auto _ : state) {
    DIR* directory = opendir("/usr/bin");
    if (failed(state, directory == nullptr, "/usr/bin")) {
      return;
    }
    while (readdir(directory) != nullptr) {
    }
    closedir(directory);
  }
}
BENCHMARK(list_directory)->Name("calls/list_usr_bin");

void epoll_eventfd(benchmark::State& state) {
  const int event = eventfd(0, EFD_CLOEXEC);
  const int poll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{.events = EPOLLIN, .data = {}};
  epoll_ctl(poll, EPOLL_CTL_ADD, event, &wanted);
  unsigned long value = 1;
  for (auto _ : state) {
    epoll_event seen{};
    if (failed(state, write(event, &value, sizeof value) != sizeof value, "write") ||
        failed(state, epoll_wait(poll, &seen, 1, -1) != 1, "epoll_wait") ||
        failed(state, read(event, &value, sizeof value) != sizeof value, "read")) {
      break;
    }
  }
  close(poll);
  close(event);
}
BENCHMARK(epoll_eventfd)->Name("calls/eventfd_epoll");

}  // namespace
}  // namespace uks::bench
