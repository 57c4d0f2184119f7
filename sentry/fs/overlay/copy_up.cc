// Copy-up: bringing lower files into the upper layer before they change.
#include <sys/epoll.h>

#include <algorithm>
#include <memory>

#include "sentry/fs/overlay/layers.h"
#include "sentry/fs/overlay/overlay.h"

namespace uks {
namespace {

constexpr size_t kChunk = 1 << 20;

bool all_zero(const char* p, size_t n) {
  return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

// Copies data, leaving holes where whole pages are zero.
Result<void> copy_data(Inode& from, TmpfsInode& to, uint64_t size) {
  auto buffer = std::make_unique<char[]>(std::min<uint64_t>(kChunk, std::max<uint64_t>(size, 1)));
  uint64_t at = 0;
  while (at < size) {
    size_t want = std::min<uint64_t>(kChunk, size - at);
    size_t n = TRY(from.read_at(static_cast<int64_t>(at), {buffer.get(), want}));
    if (n == 0) break;
    for (size_t done = 0; done < n;) {
      // A run of pages that hold something.
      size_t run = done;
      while (run < n && !all_zero(buffer.get() + run, std::min(FileData::kPage, n - run)))
        run += std::min(FileData::kPage, n - run);
      for (size_t w = done; w < run;) {
        size_t put = TRY(to.write_at(static_cast<int64_t>(at + w), {buffer.get() + w, run - w}));
        if (put == 0) return Err(ENOSPC);
        w += put;
      }
      done = run;
      if (done < n) done += std::min(FileData::kPage, n - done);
    }
    at += n;
  }
  // A hole at the end counts as well; the lower file may have grown or shrunk meanwhile.
  if (to.data().size() < std::min(at, size)) TRY(to.data().truncate(std::min(at, size)));
  return {};
}

}  // namespace

void OverlayInode::set_upper(Ref<TmpfsInode> upper) {
  upper_ = std::move(upper);
  overlay().by_upper_[upper_.get()] = this;
}

Result<Ref<TmpfsInode>> OverlayInode::make_copy(uint64_t max_bytes, uint32_t& other_links) {
  Ref<Inode> low = lower_;
  Attr a = TRY(low->getattr());
  TRY(overlay().upper_fs_->check_inodes());
  auto copy = overlay().upper_fs_->make_inode(
      {.mode = a.mode, .uid = a.uid, .gid = a.gid, .rdev = a.rdev}, a.ino);
  if (is_regular()) {
    // What may not be read (a hidden file) may not be replaced by truncating it either.
    char probe;
    if (max_bytes == 0) TRY(low->read_at(0, {&probe, 1}));
    TRY(copy_data(*low, *copy, std::min(a.size, max_bytes)));
  } else if (is_link()) {
    TRY(copy->set_link_target(TRY(low->link_text())));
  }
  // A lower file system without attributes is no reason to fail.
  if (is_regular() || is_dir()) {
    if (auto names = low->listxattr()) {
      for (const std::string& name : *names) {
        if (is_private_xattr(name)) continue;
        if (auto value = low->getxattr(name)) (void)copy->setxattr(name, *value, 0);
      }
    }
  }
  copy->attr().atime = a.atime;
  copy->attr().mtime = a.mtime;
  copy->attr().btime = a.btime;
  other_links = !is_dir() && a.nlink > 1 ? a.nlink - 1 : 0;
  return copy;
}

Result<void> OverlayInode::copy_up(uint64_t max_bytes) {
  if (upper_) return {};
  Ref<OverlayInode> self(this);
  Ref<FileSystem> keep(&fs());
  if (is_regular()) {
    // The data of a big file takes seconds: other changes of the overlay must not wait for it.
    while (copying_) overlay().copied_.wait();
    if (upper_) return {};
    copying_ = true;
    const auto done = copy_up_ahead(max_bytes);
    copying_ = false;
    overlay().copied_.signal();
    overlay().copied_queue_.wake(EPOLLIN);
    if (!done || upper_) return done;
  }
  std::lock_guard lock(overlay().changing_);
  return copy_up_locked(max_bytes);
}

Result<void> OverlayInode::copy_up_ahead(uint64_t max_bytes) {
  constexpr int kTries = 3;  // for a lower file that changes; then with everything held
  for (int i = 0; i < kTries; i++) {
    const Ref<Inode> low = lower_;
    const Attr before = TRY(low->getattr());
    Copy copy;
    copy.inode = TRY(make_copy(max_bytes, copy.other_links));
    std::lock_guard lock(overlay().changing_);
    if (upper_) return {};
    const Attr after = TRY(low->getattr());
    if (low != lower_ || before.size != after.size || before.mtime.tv_sec != after.mtime.tv_sec ||
        before.mtime.tv_nsec != after.mtime.tv_nsec) {
      continue;
    }
    return copy_up_locked(max_bytes, &copy);
  }
  return {};
}

void OverlayInode::copy_files_ahead(size_t budget) {
  std::vector<Ref<OverlayInode>> todo{Ref<OverlayInode>(this)};
  while (!todo.empty() && budget-- > 0) {
    const Ref<OverlayInode> at = std::move(todo.back());
    todo.pop_back();
    if (at->is_regular() && !at->copy_up()) return;
    if (!at->is_dir()) continue;
    const auto entries = at->list();
    if (!entries) return;
    for (const DirEntry& e : *entries) {
      auto child = at->find(e.name);
      if (child && *child) todo.push_back(ref_cast<OverlayInode>(*child));
    }
  }
}

Result<void> OverlayInode::copy_up_locked(uint64_t max_bytes, Copy* made) {
  if (upper_) return {};
  // The directories above first, from the top.
  std::vector<Ref<OverlayInode>> chain;
  for (Ref<OverlayInode> dir = parent_; dir && !dir->upper_; dir = dir->parent_)
    chain.push_back(dir);
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) TRY((*it)->copy_up_locked(0));
  uint32_t other_links = made ? made->other_links : 0;
  auto copy = made ? std::move(made->inode) : TRY(make_copy(max_bytes, other_links));
  lower_links_ = other_links;
  if (parent_) {
    // Copying a file up is no change of its directory.
    TmpfsInode& dir = *parent_->upper_;
    timespec mtime = dir.attr().mtime, ctime = dir.attr().ctime;
    TRY(dir.attach(name_, copy));
    dir.attr().mtime = mtime;
    dir.attr().ctime = ctime;
  }
  set_upper(std::move(copy));
  if (is_dir()) return {};
  if (lower_links_ > 0) {
    overlay().linked_.push_back(Ref<OverlayInode>(this));
  } else {
    overlay().by_lower_.erase(lower_.get());
  }
  parent_ = {};
  return {};
}

Result<void> OverlayInode::copy_up_tree(size_t& budget) {
  // Breadth first with an explicit list: the tree is as deep as whoever made it liked.
  std::vector<Ref<OverlayInode>> todo{Ref<OverlayInode>(this)};
  std::vector<Ref<OverlayInode>> dirs;
  while (!todo.empty()) {
    Ref<OverlayInode> at = todo.back();
    todo.pop_back();
    if (budget-- == 0) return Err(EXDEV);
    TRY(at->copy_up_locked(UINT64_MAX));
    if (!at->is_dir()) continue;
    dirs.push_back(at);
    for (const DirEntry& e : TRY(at->list())) {
      auto child = TRY(at->find(e.name));
      if (child) todo.push_back(ref_cast<OverlayInode>(child));
    }
  }
  // Further names of files that were copied up under another one.
  for (auto& dir : dirs) {
    for (const DirEntry& e : TRY(dir->list())) {
      if (dir->upper_->child(e.name)) continue;
      auto child = ref_cast<OverlayInode>(TRY(dir->find(e.name)));
      if (!child || !child->upper_) continue;
      TRY(dir->upper_->attach(e.name, child->upper_));
      if (child->lower_links_ > 0) --child->lower_links_;
    }
  }
  for (auto& dir : dirs) {
    set_opaque(*dir->upper_);
    if (dir->lower_) {
      overlay().by_lower_.erase(dir->lower_.get());
      dir->lower_ = {};
    }
  }
  return {};
}

}  // namespace uks
