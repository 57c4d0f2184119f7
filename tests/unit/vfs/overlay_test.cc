// The overlay over a fake lower tree: copy-up, whiteouts, merged directories, renames, links.
#include "tests/unit/vfs/fixture.h"

namespace uks {
namespace {

struct OverlayTest : VfsTest {
  Ref<TmpfsInode> lower;
  Ref<Overlay> overlay;

  OverlayTest() {
    lower = make_ref<Tmpfs>(1 << 26)->make_root(0755, 1000, 1000);
    // The lower tree is made through the VFS, then mounted below.
    mount_root(lower);
    EXPECT_EQ(mkdir("/dir"), 0);
    EXPECT_EQ(mkdir("/dir/sub"), 0);
    EXPECT_EQ(write("/dir/f", "lower f"), 0);
    EXPECT_EQ(write("/dir/g", "lower g"), 0);
    EXPECT_EQ(write("/dir/sub/deep", "deep"), 0);
    EXPECT_EQ(link("f", "/dir/link"), 0);
    EXPECT_TRUE(make_link(task, *resolve(task, root(), "/dir/f", 0), root(), "/dir/hard"));
    EXPECT_EQ(write("/suid", "x"), 0);
    EXPECT_TRUE(change_mode(task, *resolve(task, root(), "/suid", 0), 04755));
    drop_dentry_cache();
    overlay = make_ref<Overlay>(lower, 1 << 26, FileSystem::kForever);
    mount_root(overlay->root());
  }
  std::string lower_text(std::string_view name) {
    auto dir = lower->child("dir");
    std::string s(100, '\0');
    auto n = dir->child(name)->read_at(0, {s.data(), s.size()});
    s.resize(n ? *n : 0);
    return s;
  }
};

TEST_F(OverlayTest, WritesCopyUpAndKeepTheNumber) {
  uint64_t ino = stat("/dir/g").ino;
  auto reader = open("/dir/g", O_RDONLY);
  ASSERT_EQ(write("/dir/g", "!", O_WRONLY | O_APPEND), 0);
  EXPECT_EQ(read("/dir/g"), "lower g!");
  EXPECT_EQ(read(**reader), "lower g!");
  EXPECT_EQ(lower_text("g"), "lower g");
  EXPECT_EQ(stat("/dir/g").ino, ino);
  EXPECT_EQ(stat("/dir/g").dev, stat("/").dev);
  EXPECT_EQ(overlay->discarded_files(), 1u);
}

TEST_F(OverlayTest, RemovalsHideAndNamesComeBackEmpty) {
  EXPECT_EQ(unlink("/dir/g"), 0);
  EXPECT_EQ(find("/dir/g"), ENOENT);
  EXPECT_EQ(names("/dir"), (std::vector<std::string>{"f", "hard", "link", "sub"}));
  EXPECT_EQ(rmdir("/dir"), ENOTEMPTY);
  EXPECT_EQ(write("/dir/g", "new"), 0);
  EXPECT_EQ(read("/dir/g"), "new");
  EXPECT_EQ(unlink("/dir/sub/deep"), 0);
  EXPECT_EQ(rmdir("/dir/sub"), 0);
  EXPECT_EQ(mkdir("/dir/sub"), 0);
  EXPECT_EQ(names("/dir/sub"), std::vector<std::string>{});
  EXPECT_EQ(stat("/dir/sub").nlink, 2u);
  EXPECT_EQ(stat("/dir").nlink, 1u);
}

TEST_F(OverlayTest, HardLinksShareTheirCopy) {
  EXPECT_EQ(stat("/dir/f").nlink, 2u);
  ASSERT_EQ(write("/dir/f", "changed"), 0);
  EXPECT_EQ(read("/dir/hard"), "changed");
  EXPECT_EQ(stat("/dir/hard").nlink, 2u);
  EXPECT_EQ(stat("/dir/hard").ino, stat("/dir/f").ino);
  EXPECT_EQ(unlink("/dir/f"), 0);
  EXPECT_EQ(read("/dir/hard"), "changed");
  EXPECT_EQ(stat("/dir/hard").nlink, 1u);
  EXPECT_EQ(rename("/dir/hard", "/dir/moved"), 0);
  EXPECT_EQ(read("/dir/moved"), "changed");
  EXPECT_EQ(find("/dir/hard"), ENOENT);
}

TEST_F(OverlayTest, LowerDirectoriesCanBeRenamed) {
  ASSERT_EQ(rename("/dir", "/renamed"), 0);
  EXPECT_EQ(find("/dir"), ENOENT);
  EXPECT_EQ(read("/renamed/sub/deep"), "deep");
  EXPECT_EQ(read("/renamed/link"), "lower f");
  EXPECT_EQ(mkdir("/dir"), 0);
  EXPECT_EQ(names("/dir"), std::vector<std::string>{});
  EXPECT_EQ(rename("/dir", "/renamed", 2 /* EXCHANGE */), 0);
  EXPECT_EQ(read("/dir/f"), "lower f");
  EXPECT_EQ(names("/renamed"), std::vector<std::string>{});
}

TEST_F(OverlayTest, RenamesOverAndOut) {
  EXPECT_EQ(rename("/dir/g", "/dir/f"), 0);
  EXPECT_EQ(read("/dir/f"), "lower g");
  EXPECT_EQ(read("/dir/hard"), "lower f");
  EXPECT_EQ(find("/dir/g"), ENOENT);
  EXPECT_EQ(rename("/dir/f", "/dir/g", 1 /* NOREPLACE */), 0);
  EXPECT_EQ(rename("/dir/hard", "/dir/g", 1 /* NOREPLACE */), EEXIST);
}

TEST_F(OverlayTest, MetadataCopyUpKeepsTheRest) {
  Attr before = stat("/suid");
  ASSERT_TRUE(change_times(task, *resolve(task, root(), "/suid", 0), nullptr));
  Attr after = stat("/suid");
  EXPECT_EQ(after.mode, before.mode);
  EXPECT_EQ(after.mode & 07777, 04755u);
  EXPECT_EQ(after.size, 1u);
  // A write takes the set-id bit.
  ASSERT_EQ(write("/suid", "y", O_WRONLY), 0);
  EXPECT_EQ(stat("/suid").mode & 07777, 0755u);
}

TEST_F(OverlayTest, DeletedLowerFilesStayOpen) {
  auto f = open("/dir/g", O_RDONLY);
  ASSERT_TRUE(f);
  ASSERT_EQ(unlink("/dir/g"), 0);
  EXPECT_EQ(read(**f), "lower g");
  // Changing it by its descriptor brings no name back.
  ASSERT_TRUE(change_mode(task, place_of(**f), 0600));
  EXPECT_EQ(find("/dir/g"), ENOENT);
  EXPECT_EQ(read(**f), "lower g");
}

}  // namespace
}  // namespace uks
