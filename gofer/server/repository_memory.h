// What Repositories knows of the past: which directories the sandbox made, which were git
// directories, and where repositories were that the host's git knows. Thread-safe; asks nobody.
#pragma once
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "gofer/proto/messages.h"

namespace uks::gofer {

class RepositoryMemory {
 public:
  // Directories that the sandbox made, until they are removed. Not those at the place of a lost
  // repository.
  void made(const Attr& directory);
  bool is_made(const Attr& directory);
  void not_made(const Attr& directory);

  // Directories that were git directories before something was taken out of them.
  void was_git_directory(const Attr& directory);
  bool was_git_directory_before(const Attr& directory);

  // Files that were put here by a checked copy and never opened for writing since.
  void clean(const Attr& file);
  void not_clean(const Attr& file);
  bool is_clean(const Attr& file);

  // The inode is gone; its number will be another file's.
  void removed(const Attr& directory);

  // Absolute paths at which git on the host expects an old repository that is not there any more,
  // or that it was led to. In lower case: some file systems do not tell.
  enum class Place { kElsewhere, kAbove, kAt, kBelow };
  void lost(std::string_view path);
  Place place(std::string_view path);
  static bool is_inside(Place place) { return place == Place::kAt || place == Place::kBelow; }

  static constexpr size_t kMaxMade = 1'000'000;
  static constexpr size_t kMaxLost = 100'000;  // after that many, everything counts as lost

 private:
  using Id = std::pair<uint64_t, uint64_t>;  // device, inode
  // Numbers are used again: the birth time tells. (Of a directory made here it does not change by
  // copying up.)
  using Birth = std::pair<int64_t, uint32_t>;
  static std::pair<Id, Birth> key(const Attr& a) {
    return {{a.dev, a.ino}, {a.btime.sec, a.btime.nsec}};
  }

  std::mutex mutex_;
  std::set<std::pair<Id, Birth>> made_;
  std::set<Id> git_directories_;
  std::set<std::pair<Id, Birth>> clean_;
  std::set<std::string, std::less<>> lost_;
};

// ASCII only, as git does.
std::string lower_case(std::string_view text);
bool is_at_or_below(std::string_view path, std::string_view above);

}  // namespace uks::gofer
