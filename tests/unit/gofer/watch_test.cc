// Watching files: whose events the gofer lets the host give.
#include <sys/inotify.h>

#include "tests/unit/gofer/fixture.h"

namespace uks::gofer {
namespace {

class GoferWatch : public GoferTest {
 protected:
  // Names in the events that wait.
  std::vector<std::string> told(int fd) {
    std::vector<std::string> names;
    alignas(inotify_event) char buffer[4096];
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    for (ssize_t at = 0; at < n;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      names.push_back(std::to_string(event->wd) + " " + (event->len ? event->name : ""));
      at += static_cast<ssize_t>(sizeof *event + event->len);
    }
    return names;
  }
};

TEST_F(GoferWatch, TellsOfWhatTheHostDoes) {
  put("d/f");
  start();
  auto top = client_->watch(top_, kWatchInstance);
  ASSERT_TRUE(top);
  ASSERT_TRUE(top->fd);
  auto file = client_->watch(look("d/f")->id, 0);
  ASSERT_TRUE(file);
  EXPECT_FALSE(file->fd);
  EXPECT_NE(file->watch, top->watch);
  EXPECT_TRUE(told(top->fd.get()).empty());
  ASSERT_EQ(::mkdir(host("x").c_str(), 0700), 0);
  EXPECT_EQ(told(top->fd.get()), std::vector{std::to_string(top->watch) + " x"});
  std::filesystem::permissions(host("d/f"), std::filesystem::perms::owner_read);
  EXPECT_EQ(told(top->fd.get()), std::vector{std::to_string(file->watch) + " "});
  // Looking is not told: that is frequent.
  get("d/f");
  EXPECT_TRUE(told(top->fd.get()).empty());
  ASSERT_TRUE(client_->unwatch(top->watch));
  EXPECT_FALSE(client_->unwatch(top->watch));
  ASSERT_EQ(::rmdir(host("x").c_str()), 0);
  EXPECT_EQ(told(top->fd.get()).size(), 1u);  // IN_IGNORED
}

TEST_F(GoferWatch, TheInstanceIsGivenOnce) {
  start();
  auto first = client_->watch(top_, kWatchInstance), second = client_->watch(top_, kWatchInstance);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->fd);
  EXPECT_EQ(second ? 0 : second.error().value, EBUSY);
  auto third = client_->watch(top_, 0);
  ASSERT_TRUE(third);
  EXPECT_EQ(first->watch, third->watch);
}

TEST_F(GoferWatch, HiddenNamesAreNotTold) {
  put("absent/f");
  put("denied/f");
  put("home/secret");
  put("home/deep/f");
  put("plain/f");
  start({{"/absent", Action::kAbsent},
         {"/denied", Action::kDeny},
         {"/home/*/key", Action::kAbsent},
         {"/home/secret", Action::kAbsent}});
  auto error = [&](std::string_view path) {
    auto node = look(path);
    if (!node) return node.error().value;
    auto watched = client_->watch(node->id, 0);
    return watched ? 0 : watched.error().value;
  };
  const auto top = client_->watch(top_, kWatchInstance);
  EXPECT_EQ(top ? 0 : top.error().value, EPERM);
  ASSERT_TRUE(client_->watch(look("plain")->id, kWatchInstance));
  EXPECT_EQ(error("absent"), ENOENT);
  EXPECT_EQ(error("denied"), EACCES);
  EXPECT_EQ(error("home"), EPERM);
  EXPECT_EQ(error("home/deep"), EPERM);
  EXPECT_EQ(error("plain"), 0);
  EXPECT_EQ(error("plain/f"), 0);
}

TEST_F(GoferWatch, RemovedFilesAreNot) {
  put("f");
  start();
  const NodeId id = look("f")->id;
  ASSERT_TRUE(client_->unlink(top_, "f"));
  auto watched = client_->watch(id, kWatchInstance);
  EXPECT_EQ(watched ? 0 : watched.error().value, ESTALE);
}

}  // namespace
}  // namespace uks::gofer
