// Device nodes and their files.
#include "sentry/fs/dev/dev.h"

#include <sys/random.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sentry/fs/tmpfs/tmpfs.h"
#include "sentry/fs/tty/tty.h"
#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/task/task.h"

namespace uks {
namespace {

constexpr uint32_t kTtyGroup = 5;
// Bytes of /dev itself; guests may put files here, as on Docker's /dev.
constexpr uint64_t kDevSize = 64 << 20;
// What one read produces before it lets others run.
constexpr size_t kChunk = 1 << 20;

enum class Device { kNull, kZero, kFull, kRandom, kTty };

// drivers/char/mem.c and random.c. Positions mean nothing here: lseek always answers 0
// (null_lseek()).
class DeviceFile final : public File {
 public:
  DeviceFile(Path path, int flags, Device device) : File(std::move(path), flags), device_(device) {}

  bool seekable() const override { return true; }
  Result<int64_t> seek(Task&, int64_t, int) override { return pos = 0; }
  Result<size_t> read(Task& task, IoSink& sink) override { return produce(task, sink); }
  Result<size_t> pread(Task& task, IoSink& sink, int64_t) override { return produce(task, sink); }
  Result<size_t> write(Task&, IoSource& source) override { return consume(source); }
  Result<size_t> pwrite(Task&, IoSource& source, int64_t) override { return consume(source); }
  // Only random and urandom can be polled on Linux.
  WaitQueue* wait_queue() override { return device_ == Device::kRandom ? &queue_ : nullptr; }

  Result<MappableFd> mappable_fd(Task&, int, bool) override {
    if (device_ != Device::kZero) return Err(ENODEV);
    // A shared mapping of /dev/zero is an object of its own, like an anonymous one (mmap_zero()).
    MappableFd m;
    m.anonymous = true;
    return m;
  }

 private:
  Result<size_t> produce(Task& task, IoSink& sink) {
    if (device_ == Device::kNull) return 0;
    size_t done = 0;
    while (sink.remaining() > 0) {
      auto n = device_ == Device::kRandom ? random_piece(sink)
                                          : sink.write_zeros(std::min(kChunk, sink.remaining()));
      if (!n) return done ? Result<size_t>(done) : n;
      done += *n;
      if (*n == 0 || sink.remaining() == 0) break;
      if (done % kChunk == 0) yield_kernel_lock();
      if (task.dead || task.has_deliverable_signal()) break;
    }
    return done;
  }

  static Result<size_t> random_piece(IoSink& sink) {
    char buffer[4096];
    const size_t want = std::min(sizeof buffer, sink.remaining());
    // Does not block: the host's pool is long initialised when a sandbox starts.
    const ssize_t got = getrandom(buffer, want, 0);
    if (got < 0) return HostErr();
    return sink.write(buffer, static_cast<size_t>(got));
  }

  // The bytes are not even looked at (write_null()); random ones are not mixed into the host's
  // pool.
  Result<size_t> consume(IoSource& source) {
    if (device_ == Device::kFull) return Err(ENOSPC);
    const size_t n = source.remaining();
    source.advance(n);
    return n;
  }

  Device device_;
  WaitQueue queue_;
};

class DeviceInode final : public TmpfsInode {
 public:
  DeviceInode(Tmpfs& fs, const NewNode& node, uint64_t ino, Device device)
      : TmpfsInode(fs, node, ino), device_(device) {}
  Result<Ref<File>> open(Task& task, const Path& path, int flags) override {
    if (device_ == Device::kTty) return open_controlling_terminal(task, path, flags);
    return make_ref<DeviceFile>(path, flags, device_);
  }

 private:
  Device device_;
};

struct Node {
  const char* name;
  Device device;
  unsigned major, minor;  // Documentation/admin-guide/devices.txt
};

constexpr Node kNodes[] = {
    {"null", Device::kNull, 1, 3},      {"zero", Device::kZero, 1, 5},
    {"full", Device::kFull, 1, 7},      {"random", Device::kRandom, 1, 8},
    {"urandom", Device::kRandom, 1, 9}, {"tty", Device::kTty, 5, 0},
};

constexpr const char* kLinks[][2] = {
    {"fd", "/proc/self/fd"},
    {"stdin", "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"},
};

}  // namespace

Ref<Inode> make_dev_root(Kernel& kernel, const ViewConfig&, Ref<DevptsRoot> pts) {
  // Numbers below 100 are the device nodes'.
  auto fs = make_ref<Tmpfs>(kDevSize, 100, kernel.file_pages);
  Ref<TmpfsInode> root = fs->make_root(0755, 0, 0);
  uint64_t ino = 2;
  // The tree is empty and the names differ: attach() cannot fail.
  for (const Node& node : kNodes) {
    NewNode attributes;
    attributes.mode = S_IFCHR | 0666;
    attributes.gid = node.device == Device::kTty ? kTtyGroup : 0;
    attributes.rdev = makedev(node.major, node.minor);
    (void)root->attach(node.name, make_ref<DeviceInode>(*fs, attributes, ino++, node.device));
  }
  for (const auto& [name, target] : kLinks) {
    auto link = fs->make_inode({.mode = S_IFLNK | 0777, .uid = 0, .gid = 0, .rdev = 0});
    (void)link->set_link_target(target);  // short: costs nothing
    (void)root->attach(name, std::move(link));
  }
  if (pts) (void)root->attach("ptmx", make_ptmx(*fs, ino++, std::move(pts)));
  (void)root->attach("pts", fs->make_root(0755, 0, 0));
  (void)root->attach("shm", fs->make_root(01777, 0, 0));
  return root;
}

}  // namespace uks
