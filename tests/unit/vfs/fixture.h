// A tree of tmpfs (or an overlay over one) and a task whose root it is.
#pragma once
#include <gtest/gtest.h>

#include "sentry/fs/overlay/overlay.h"
#include "sentry/fs/tmpfs/tmpfs.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"
#include "sentry/vfs/ops.h"
#include "tests/unit/ipc/fixture.h"

namespace uks {

struct VfsTest : testing::Test {
  OneTask one;
  Task& task = *one.task;

  VfsTest() {
    kernel_lock.lock();
    Credentials creds;
    creds.ruid = creds.euid = creds.suid = creds.fsuid = 1000;
    creds.rgid = creds.egid = creds.sgid = creds.fsgid = 1000;
    task.set_creds(creds);
    mount_root(make_ref<Tmpfs>(1 << 26)->make_root(0755, 1000, 1000));
  }
  ~VfsTest() override { kernel_lock.unlock(); }

  void mount_root(Ref<Inode> root) {
    Ref<FileSystem> fs(&root->fs());
    auto mount = make_ref<Mount>(std::move(fs), Dentry::make_root(std::move(root)), 0, "test");
    auto ns = make_ref<MountNamespace>(mount);
    Path at{mount, mount->root()};
    task.fs_context = make_ref<FsContext>(ns, at, at);
  }

  const Path& root() { return task.fs().root; }
  static int code(const auto& r) { return r ? 0 : r.error().value; }

  int mkdir(std::string_view p, uint32_t mode = 0755) {
    return code(make_directory(task, root(), p, mode));
  }
  int link(std::string_view target, std::string_view p) {
    return code(make_symlink(task, target, root(), p));
  }
  int unlink(std::string_view p) { return code(remove_file(task, root(), p)); }
  int rmdir(std::string_view p) { return code(remove_directory(task, root(), p)); }
  int rename(std::string_view a, std::string_view b, unsigned flags = 0) {
    return code(rename_file(task, root(), a, root(), b, flags));
  }
  int find(std::string_view p, uint64_t flags = kFollowLast) {
    return code(resolve(task, root(), p, flags));
  }
  Attr stat(std::string_view p, uint64_t flags = kFollowLast) {
    auto place = resolve(task, root(), p, flags);
    EXPECT_TRUE(place) << p;
    if (!place) return {};
    return place->inode()->getattr().value();
  }
  Result<Ref<File>> open(std::string_view p, int flags, uint32_t mode = 0644) {
    return open_file(task, root(), p, {.flags = flags, .mode = mode, .resolve = 0});
  }
  int write(std::string_view p, std::string_view text, int flags = O_CREAT | O_WRONLY | O_TRUNC) {
    auto f = open(p, flags);
    if (!f) return f.error().value;
    BufferSource source(text);
    auto n = (*f)->write(task, source);
    return n ? (*n == text.size() ? 0 : ENOSPC) : n.error().value;
  }
  std::string read(std::string_view p) {
    auto f = open(p, O_RDONLY);
    if (!f) return "error " + std::to_string(f.error().value);
    return read(**f);
  }
  std::string read(File& f) {
    std::string s(1 << 16, '\0');
    BufferSink sink(std::span<char>(s.data(), s.size()));
    auto n = f.pread(task, sink, 0);
    s.resize(n ? *n : 0);
    return s;
  }
  std::vector<std::string> names(std::string_view p) {
    auto place = resolve(task, root(), p, kFollowLast);
    std::vector<std::string> out;
    if (!place) return out;
    auto entries = place->inode()->read_dir(task);
    if (entries) {
      for (auto& e : *entries) out.push_back(e.name);
    }
    std::sort(out.begin(), out.end());
    return out;
  }
};

}  // namespace uks
