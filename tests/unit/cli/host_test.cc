// The real host: what is said of names in directories that are asked about often.
#include "tools/cli/host.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace uks::cli {
namespace {

class HostKinds : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/uks-host-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    dir_ = name;
    std::ofstream(dir_ / "file") << "x";
    std::filesystem::create_directory(dir_ / "dir");
    std::ofstream(dir_ / "dir" / "inner") << "x";
    std::filesystem::create_symlink("nowhere", dir_ / "link");
    std::filesystem::create_directory_symlink("dir", dir_ / "to_dir");
    ASSERT_EQ(mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  FileKind kind(const std::string& name) { return host_.kind(dir_ / name); }
  void expect_all() {
    EXPECT_EQ(kind("file"), FileKind::kFile);
    EXPECT_EQ(kind("dir"), FileKind::kDirectory);
    EXPECT_EQ(kind("link"), FileKind::kLink);
    EXPECT_EQ(kind("to_dir"), FileKind::kLink);
    EXPECT_EQ(kind("fifo"), FileKind::kOther);
    EXPECT_EQ(kind("none"), FileKind::kMissing);
    EXPECT_EQ(kind("none/below"), FileKind::kMissing);
    EXPECT_EQ(kind("dir/inner"), FileKind::kFile);
  }

  std::filesystem::path dir_;
  RealHost host_;
};

TEST_F(HostKinds, FewNamesAreLookedUp) { expect_all(); }

TEST_F(HostKinds, OfManyTheDirectoryIsListed) {
  for (int i = 0; i < 10; i++) EXPECT_EQ(kind("no" + std::to_string(i)), FileKind::kMissing);
  expect_all();
  // Asked for through a link to the directory, too.
  for (int i = 0; i < 10; i++) EXPECT_EQ(kind("to_dir/no" + std::to_string(i)), FileKind::kMissing);
  EXPECT_EQ(kind("to_dir/inner"), FileKind::kFile);
}

TEST_F(HostKinds, AHugeOneIsNot) {
  for (int i = 0; i < 4200; i++) std::ofstream(dir_ / std::to_string(i));
  for (int i = 0; i < 10; i++) EXPECT_EQ(kind("no" + std::to_string(i)), FileKind::kMissing);
  expect_all();
  EXPECT_EQ(kind("4199"), FileKind::kFile);
}

TEST_F(HostKinds, TheRootDirectory) {
  for (int i = 0; i < 10; i++) EXPECT_EQ(host_.kind("/no" + std::to_string(i)), FileKind::kMissing);
  EXPECT_EQ(host_.kind("/tmp"), FileKind::kDirectory);
  EXPECT_EQ(host_.kind("/"), FileKind::kDirectory);
}

}  // namespace
}  // namespace uks::cli
