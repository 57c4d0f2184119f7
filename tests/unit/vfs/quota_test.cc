// The sandbox's page quota: one bound over file systems, mappings, pipes and sockets.
#include <linux/falloc.h>
#include <sys/socket.h>

#include "sentry/fs/pipe/pipe.h"
#include "sentry/net/socket.h"
#include "tests/unit/vfs/fixture.h"

namespace uks {
namespace {

Result<size_t> put(FileData& data, uint64_t pos, std::string_view text) {
  BufferSource source(text);
  return data.write(pos, source);
}

TEST_F(VfsTest, OneQuotaOverSeveralFileSystems) {
  auto sandbox = make_ref<PageQuota>(100);
  {
    auto a = make_ref<Tmpfs>(0, 1, sandbox);
    auto b = make_ref<Tmpfs>(8 * 4096, 1, sandbox);
    auto in_a = a->make_inode({.mode = S_IFREG | 0600, .uid = 0, .gid = 0, .rdev = 0});
    auto in_b = b->make_inode({.mode = S_IFREG | 0600, .uid = 0, .gid = 0, .rdev = 0});
    const std::string big(95 * 4096, 'x');
    EXPECT_EQ(put(in_b->data(), 0, big).value(), 8u * 4096);  // its own limit
    EXPECT_EQ(put(in_a->data(), 0, big).value(), 92u * 4096);
    EXPECT_EQ(put(in_a->data(), 92 * 4096, "x").error(), ENOSPC);
    EXPECT_EQ(a->statfs()->f_bavail, 0u);
    EXPECT_EQ(a->check_inodes().error(), ENOSPC);
    ASSERT_TRUE(in_b->data().truncate(0));
    EXPECT_EQ(a->statfs()->f_bavail, 8u);
    EXPECT_EQ(b->statfs()->f_bavail, 8u);
    EXPECT_TRUE(put(in_a->data(), 92 * 4096, "x"));
  }
  EXPECT_EQ(sandbox->used(), 0u);
}

TEST_F(VfsTest, InodesAndNamesCostPages) {
  auto sandbox = make_ref<PageQuota>(1000);
  {
    auto fs = make_ref<Tmpfs>(0, 1, sandbox);
    auto root = fs->make_root(0755, 0, 0);
    for (int i = 0; i < 80; i++)
      ASSERT_TRUE(
          root->mkdir(std::to_string(i), {.mode = S_IFDIR | 0755, .uid = 0, .gid = 0, .rdev = 0}));
    EXPECT_EQ(sandbox->used(), 20u);
  }
  EXPECT_EQ(sandbox->used(), 0u);
}

// A mapping can fill every hole, and outlives names and descriptors.
TEST_F(VfsTest, MappingsAreChargedBySizeUntilTheyEnd) {
  auto quota = make_ref<PageQuota>(100);
  Ref<PageAccount> mapped;
  {
    FileData data(quota);
    ASSERT_TRUE(data.truncate(60 * 4096));
    EXPECT_EQ(quota->used(), 0u);
    mapped = data.memfd()->pages;
    EXPECT_EQ(quota->used(), 60u);
    EXPECT_EQ(data.truncate(101 * 4096).error(), ENOSPC);
    EXPECT_EQ(data.size(), 60u * 4096);
    ASSERT_TRUE(data.truncate(90 * 4096));
    EXPECT_EQ(quota->used(), 90u);
    FileData other(quota);
    ASSERT_TRUE(other.truncate(11 * 4096));
    EXPECT_EQ(other.memfd().error(), ENOSPC);
    ASSERT_TRUE(data.truncate(70 * 4096));
    EXPECT_TRUE(other.memfd());
  }
  EXPECT_EQ(quota->used(), 70u);
  mapped = nullptr;
  EXPECT_EQ(quota->used(), 0u);
}

TEST_F(VfsTest, UnmappedIsChargedByUseAgain) {
  auto quota = make_ref<PageQuota>(100);
  FileData data(quota);
  ASSERT_TRUE(data.truncate(90 * 4096));
  {
    auto mapped = data.memfd();
  }
  EXPECT_EQ(quota->used(), 90u);
  ASSERT_TRUE(put(data, 0, "x"));
  EXPECT_EQ(quota->used(), 1u);
  ASSERT_TRUE(data.allocate(FALLOC_FL_KEEP_SIZE, 0, 10 * 4096));
  EXPECT_EQ(quota->used(), 10u);
  EXPECT_EQ(data.allocate(0, 0, 100 * 4096).error(), ENOSPC);
  EXPECT_EQ(quota->used(), 10u);
}

TEST_F(VfsTest, PipesAreCharged) {
  auto quota = make_ref<PageQuota>(4);
  auto pipe = make_ref<Pipe>(quota);
  pipe->add_end(true, true);
  const std::string text(32768, 'x');
  BufferSource source(text);
  EXPECT_EQ(pipe->write(source).error(), ENOMEM);
  BufferSource less(std::string_view(text).substr(0, 16384));
  EXPECT_EQ(pipe->write(less).value(), 16384u);
  EXPECT_EQ(quota->used(), 4u);
  pipe->remove_end(true, true);
  EXPECT_EQ(quota->used(), 0u);
}

TEST_F(VfsTest, FullFileSystemsLeaveRoomForPipes) {
  Kernel& kernel = one.kernel;
  Tmpfs files(0, 1, kernel.file_pages);
  ASSERT_TRUE(kernel.file_pages->charge(kernel.file_pages->available()));
  auto inode = files.make_inode({.mode = S_IFREG | 0600, .uid = 0, .gid = 0, .rdev = 0});
  EXPECT_EQ(put(inode->data(), 0, "x").error(), ENOSPC);
  auto pipe = make_ref<Pipe>(kernel.pages);
  pipe->add_end(true, true);
  BufferSource source(std::string_view("x"));
  EXPECT_EQ(pipe->write(source).value(), 1u);
  // And the other way: full pipes are no room for files.
  EXPECT_EQ(kernel.pages->used(), kernel.file_pages->used() + 1);
  pipe->remove_end(true, true);
}

TEST_F(VfsTest, SocketsAreCharged) {
  one.kernel.pages = make_ref<PageQuota>(8);
  auto pair = make_socket_pair(task, AF_UNIX, SOCK_STREAM, 0);
  ASSERT_TRUE(pair);
  const std::string text(65536, 'x');
  BufferSource source(text);
  SendRequest request{
      .source = source, .flags = 0, .to = {}, .creds = {}, .files = {}, .wait_on = nullptr};
  EXPECT_EQ(pair->first->send(task, request).error(), ENOBUFS);
  BufferSource less(std::string_view(text).substr(0, 16384));
  SendRequest small{
      .source = less, .flags = 0, .to = {}, .creds = {}, .files = {}, .wait_on = nullptr};
  EXPECT_EQ(pair->first->send(task, small).value(), 16384u);
  EXPECT_EQ(one.kernel.pages->used(), 5u);
  pair->first->release();
  pair->second->release();
  EXPECT_EQ(one.kernel.pages->used(), 0u);
}

}  // namespace
}  // namespace uks
