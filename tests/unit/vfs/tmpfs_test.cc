// Data of tmpfs files: holes, the move to a memfd, limits.
#include "sentry/vfs/locks.h"
#include "tests/unit/vfs/fixture.h"

namespace uks {
namespace {

std::string get(FileData& data, uint64_t pos, size_t n) {
  std::string s(n, '?');
  BufferSink sink(std::span<char>(s.data(), s.size()));
  auto r = data.read(pos, sink);
  s.resize(r ? *r : 0);
  return s;
}

Result<size_t> put(FileData& data, uint64_t pos, std::string_view text) {
  BufferSource source(text);
  return data.write(pos, source);
}

TEST_F(VfsTest, HolesAreZeroAndFree) {
  auto quota = make_ref<PageQuota>(1000);
  FileData data(quota);
  ASSERT_TRUE(put(data, 3 * 4096 + 5, "abc"));
  EXPECT_EQ(quota->used(), 1u);
  EXPECT_EQ(get(data, 3 * 4096 + 4, 10), std::string("\0abc", 4));
  EXPECT_EQ(data.seek(0, false).value(), 3 * 4096);
  EXPECT_EQ(data.seek(0, true).value(), 0);
  EXPECT_EQ(data.seek(3 * 4096, true).value(), 3 * 4096 + 8);
  ASSERT_TRUE(data.truncate(3 * 4096 + 6));
  ASSERT_TRUE(data.truncate(4 * 4096));
  EXPECT_EQ(get(data, 3 * 4096 + 5, 3), std::string("a\0\0", 3));
  ASSERT_TRUE(data.truncate(0));
  EXPECT_EQ(quota->used(), 0u);
}

TEST_F(VfsTest, MovesToMemfdWithItsData) {
  auto quota = make_ref<PageQuota>(100'000);
  {
    FileData data(quota);
    ASSERT_TRUE(put(data, 4096, "early"));
    ASSERT_TRUE(put(data, FileData::kMaxHeap + 10, "late"));
    EXPECT_EQ(get(data, 4096, 5), "early");
    EXPECT_EQ(get(data, FileData::kMaxHeap + 10, 5), "late");
    EXPECT_EQ(quota->used(), 2u);
    int fd = data.memfd().value().fd;
    char byte;
    ASSERT_EQ(pread(fd, &byte, 1, 4096), 1);
    EXPECT_EQ(byte, 'e');
    ASSERT_EQ(pwrite(fd, "E", 1, 4096), 1);
    EXPECT_EQ(get(data, 4096, 5), "Early");
  }
  EXPECT_EQ(quota->used(), 0u);
}

TEST_F(VfsTest, LimitsAreEnospc) {
  auto quota = make_ref<PageQuota>(4);
  FileData data(quota);
  std::string big(5 * 4096, 'x');
  EXPECT_EQ(put(data, 0, big).value(), 4u * 4096);
  EXPECT_EQ(put(data, 4 * 4096, "y").error(), ENOSPC);
  FileData large(quota);
  EXPECT_EQ(put(large, 2 << 20, "y").error(), ENOSPC);
}

TEST_F(VfsTest, LocksSplitAndConflict) {
  FileLocks locks;
  int a, b;
  auto lock = [](void* owner, int64_t s, int64_t e, bool x) {
    return RecordLock{s, e, x, owner, 1};
  };
  ASSERT_TRUE(locks.set(lock(&a, 0, 99, true)));
  EXPECT_EQ(locks.set(lock(&b, 50, 60, false)).error(), EAGAIN);
  EXPECT_TRUE(locks.unlock(&a, 50, 60));
  EXPECT_TRUE(locks.set(lock(&b, 50, 60, true)));
  EXPECT_EQ(locks.conflict(lock(&b, 0, INT64_MAX, true))->start, 0);
  EXPECT_EQ(locks.conflict(lock(&a, 55, 55, false))->owner, &b);
  locks.release_owner(&a);
  EXPECT_EQ(locks.conflict(lock(&b, 0, INT64_MAX, true)), nullptr);
}

// Every hole makes a record more.
TEST_F(VfsTest, LocksAreBounded) {
  FileLocks locks;
  int a;
  ASSERT_TRUE(locks.set({0, INT64_MAX, true, &a, 1}));
  int64_t at = 1;
  while (at < 100'000 && locks.unlock(&a, at, at)) at += 2;
  EXPECT_EQ(locks.records().size(), 16384u);
  EXPECT_EQ(locks.unlock(&a, at, at).error(), ENOLCK);
  EXPECT_EQ(locks.set({at, at, false, &a, 1}).error(), ENOLCK);
  EXPECT_TRUE(locks.unlock(&a, 0, at));
  EXPECT_EQ(locks.records().size(), 1u);
}

TEST_F(VfsTest, DescriptorsTakeTheLowestNumber) {
  task.group().limits[RLIMIT_NOFILE] = {10, 10};
  task.fd_table = make_ref<FdTable>();
  ASSERT_EQ(write("/f", "x"), 0);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(task.fds().install(task, *open("/f", O_RDONLY), i == 3).value(), i);
  ASSERT_TRUE(task.fds().close(task, 1));
  EXPECT_EQ(task.fds().install(task, *open("/f", O_RDONLY), false, 3).value(), 5);
  EXPECT_EQ(task.fds().install(task, *open("/f", O_RDONLY), false).value(), 1);
  EXPECT_EQ(task.fds().install(task, *open("/f", O_RDONLY), false).value(), 6);
  auto copy = task.fds().clone();
  task.fds().close_on_exec(task);
  EXPECT_EQ(task.fds().list(), (std::vector<int>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(copy->count(), 7);
  task.fds().close_range(task, 2, ~0u, false);
  for (int i = 2; i < 10; ++i)
    EXPECT_EQ(task.fds().install(task, *open("/f", O_RDONLY), false).value(), i);
  EXPECT_EQ(task.fds().install(task, *open("/f", O_RDONLY), false).error(), EMFILE);
  task.fds().clear(task);
}

}  // namespace
}  // namespace uks
