#include "gofer/server/repository_memory.h"

namespace uks::gofer {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

bool is_at_or_below(std::string_view path, std::string_view above) {
  if (above == "/") return true;
  return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
}

void RepositoryMemory::made(const Attr& directory) {
  const std::lock_guard lock(mutex_);
  git_directories_.erase({directory.dev, directory.ino});
  if (made_.size() < kMaxMade) made_.insert(key(directory));
}

bool RepositoryMemory::is_made(const Attr& directory) {
  const std::lock_guard lock(mutex_);
  return made_.contains(key(directory));
}

void RepositoryMemory::not_made(const Attr& directory) {
  const std::lock_guard lock(mutex_);
  made_.erase(key(directory));
}

void RepositoryMemory::was_git_directory(const Attr& directory) {
  const std::lock_guard lock(mutex_);
  git_directories_.insert({directory.dev, directory.ino});
}

bool RepositoryMemory::was_git_directory_before(const Attr& directory) {
  const std::lock_guard lock(mutex_);
  return git_directories_.contains({directory.dev, directory.ino});
}

void RepositoryMemory::clean(const Attr& file) {
  const std::lock_guard lock(mutex_);
  if (clean_.size() < kMaxMade) clean_.insert(key(file));
}

void RepositoryMemory::not_clean(const Attr& file) {
  const std::lock_guard lock(mutex_);
  clean_.erase(key(file));
}

bool RepositoryMemory::is_clean(const Attr& file) {
  const std::lock_guard lock(mutex_);
  return clean_.contains(key(file));
}

void RepositoryMemory::removed(const Attr& directory) {
  const std::lock_guard lock(mutex_);
  made_.erase(key(directory));
  git_directories_.erase({directory.dev, directory.ino});
}

void RepositoryMemory::lost(std::string_view path) {
  const std::lock_guard lock(mutex_);
  lost_.insert(lost_.size() < kMaxLost ? lower_case(path) : "/");
}

RepositoryMemory::Place RepositoryMemory::place(std::string_view path) {
  const std::lock_guard lock(mutex_);
  if (lost_.empty()) return Place::kElsewhere;
  const std::string here = lower_case(path);
  if (lost_.contains(here)) return Place::kAt;
  if (lost_.contains("/")) return Place::kBelow;
  for (size_t slash = here.rfind('/'); slash != std::string::npos && slash > 0;
       slash = here.rfind('/', slash - 1)) {
    if (lost_.contains(std::string_view(here).substr(0, slash))) return Place::kBelow;
  }
  const std::string below = here + "/";
  const auto next = lost_.lower_bound(below);
  return next != lost_.end() && next->starts_with(below) ? Place::kAbove : Place::kElsewhere;
}

}  // namespace uks::gofer
