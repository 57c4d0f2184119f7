// Bytes of tmpfs files: heap pages first, a memfd later.
#include "sentry/fs/tmpfs/file_data.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "sentry/task/kernel_lock.h"
#include "sentry/vfs/host_io.h"

namespace uks {
namespace {

constexpr uint64_t kMaxSize = 1ull << 43;  // 8 TiB, sparse
constexpr size_t kIoChunk = 1 << 20;

uint64_t pages_of(uint64_t bytes) { return (bytes + FileData::kPage - 1) / FileData::kPage; }

}  // namespace

FileData::~FileData() { quota_.uncharge(charged_); }

void FileData::recount() {
  struct stat st;
  if (pledged_ || host_fstat(fd_.get(), &st) != 0) return;
  uint64_t used = static_cast<uint64_t>(st.st_blocks) / 8;
  if (used > charged_) {
    uint64_t before = quota_.used();
    quota_.force(used - charged_);
    charged_ += quota_.used() - before;
  } else {
    quota_.uncharge(charged_ - used);
    charged_ = used;
  }
}

uint64_t FileData::blocks() {
  if (!fd_) return charged_ * 8;
  struct stat st;
  if (host_fstat(fd_.get(), &st) != 0) return charged_ * 8;
  return static_cast<uint64_t>(st.st_blocks);
}

Result<size_t> FileData::read(uint64_t pos, IoSink& sink) {
  size_t done = 0;
  while (sink.remaining() > 0 && pos < size_) {
    uint64_t left = size_ - pos;
    if (fd_) {
      auto span = sink.prepare(std::min<uint64_t>(left, kIoChunk));
      ssize_t n;
      int error = 0;
      int fd = fd_.get();  // stays open: the caller holds the inode, and fd_ never changes back
      {
        Unlocked unlocked;
        n = pread(fd, span.data(), span.size(), static_cast<off_t>(pos));
        if (n < 0) error = errno;
      }
      if (n < 0) return done ? Result<size_t>(done) : Err(error);
      if (n == 0) break;
      if (auto r = sink.commit(static_cast<size_t>(n)); !r) return done ? Result<size_t>(done) : Err(r.error());
      pos += static_cast<uint64_t>(n);
      done += static_cast<size_t>(n);
      continue;
    }
    size_t index = pos / kPage, in_page = pos % kPage;
    size_t want = std::min<uint64_t>(left, kPage - in_page);
    const Page* page = index < pages_.size() ? pages_[index].get() : nullptr;
    auto r = page ? sink.write(page->data() + in_page, want) : sink.write_zeros(want);
    if (!r) return done ? Result<size_t>(done) : r;
    if (*r == 0) break;
    pos += *r;
    done += *r;
  }
  return done;
}

Result<FileData::Page*> FileData::page_for_write(size_t index) {
  if (index >= pages_.size()) pages_.resize(index + 1);
  if (!pages_[index]) {
    TRY(quota_.charge(1));
    ++charged_;
    pages_[index] = std::make_unique<Page>();
  }
  return pages_[index].get();
}

Result<size_t> FileData::write(uint64_t pos, IoSource& source) {
  if (pos >= kMaxSize) return Err(EFBIG);
  uint64_t end = std::min(kMaxSize, pos + source.remaining());
  if (!fd_ && end > kMaxHeap) TRY(migrate());
  size_t done = 0;
  while (pos < end && source.remaining() > 0) {
    if (fd_) {
      auto peeked = source.peek(std::min<uint64_t>(end - pos, kIoChunk));
      if (!peeked) return done ? Result<size_t>(done) : Err(peeked.error());
      auto span = *peeked;
      // Charged in advance for the whole chunk, then corrected.
      uint64_t need = pages_of(span.size()) + 1;
      if (!pledged_) {
        if (need > quota_.limit() - quota_.used()) {
          recount();
          if (need > quota_.limit() - quota_.used()) return done ? Result<size_t>(done) : Err(ENOSPC);
        }
        TRY(quota_.charge(need));
        charged_ += need;
      } else if (uint64_t want = pages_of(pos + span.size()); want > charged_) {
        if (auto r = quota_.charge(want - charged_); !r) return done ? Result<size_t>(done) : Err(r.error());
        charged_ = want;
      }
      // The size counts at once, so that an appender that runs meanwhile starts behind this write.
      uint64_t old_size = size_;
      size_ = std::max(size_, pos + span.size());
      ssize_t n;
      int error = 0;
      int fd = fd_.get();
      {
        Unlocked unlocked;
        n = pwrite(fd, span.data(), span.size(), static_cast<off_t>(pos));
        if (n < 0) error = errno;
      }
      if (n < 0) {
        if (size_ == pos + span.size()) size_ = old_size;
        recount();
        return done ? Result<size_t>(done) : Err(error);
      }
      source.advance(static_cast<size_t>(n));
      pos += static_cast<uint64_t>(n);
      done += static_cast<size_t>(n);
      if (!pledged_) {
        quota_.uncharge(need);
        charged_ -= need;
        recount();
      }
      continue;
    }
    size_t in_page = pos % kPage;
    auto page = page_for_write(pos / kPage);
    if (!page) return done ? Result<size_t>(done) : Err(page.error());
    auto r = source.read((*page)->data() + in_page, std::min<uint64_t>(end - pos, kPage - in_page));
    if (!r) return done ? Result<size_t>(done) : r;
    if (*r == 0) break;
    pos += *r;
    done += *r;
    size_ = std::max(size_, pos);
  }
  return done;
}

Result<void> FileData::truncate(uint64_t size) {
  if (size > kMaxSize) return Err(EFBIG);
  if (!fd_ && size > kMaxHeap) {
    // A sparse file stays on the heap while its data is small enough; only its size may be large.
    TRY(migrate());
  }
  if (fd_) {
    if (ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) return HostErr();
    size_ = size;
    if (pledged_) {
      uint64_t want = pages_of(size);
      if (want > charged_) {
        TRY(quota_.charge(want - charged_));
      } else {
        quota_.uncharge(charged_ - want);
      }
      charged_ = want;
    } else {
      recount();
    }
    return {};
  }
  size_t keep = pages_of(size);
  for (size_t i = keep; i < pages_.size(); ++i) {
    if (pages_[i]) {
      quota_.uncharge(1);
      --charged_;
    }
  }
  if (keep < pages_.size()) pages_.resize(keep);
  if (size < size_ && size % kPage && size / kPage < pages_.size() && pages_[size / kPage])
    memset(pages_[size / kPage]->data() + size % kPage, 0, kPage - size % kPage);
  size_ = size;
  return {};
}

Result<void> FileData::allocate(int mode, uint64_t offset, uint64_t length) {
  uint64_t end = offset + length;
  if (end < offset || end > kMaxSize) return Err(EFBIG);
  bool punch = mode & FALLOC_FL_PUNCH_HOLE, zero = mode & FALLOC_FL_ZERO_RANGE;
  bool keep_size = mode & FALLOC_FL_KEEP_SIZE;
  if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) return Err(EOPNOTSUPP);
  if (punch && (!keep_size || zero)) return Err(EOPNOTSUPP);
  // tmpfs knows no ZERO_RANGE (mm/shmem.c).
  if (zero) return Err(EOPNOTSUPP);
  if (!fd_ && end > kMaxHeap && !punch) TRY(migrate());
  if (fd_) {
    uint64_t need = pages_of(length) + 1;
    if (!punch && !pledged_) {
      recount();
      if (need > quota_.limit() - quota_.used()) return Err(ENOSPC);
    }
    int fd = fd_.get(), r, error = 0;
    {
      Unlocked unlocked;
      r = fallocate(fd, mode, static_cast<off_t>(offset), static_cast<off_t>(length));
      if (r != 0) error = errno;
    }
    if (r != 0) return Err(error);
    if (!keep_size) size_ = std::max(size_, end);
    recount();
    return {};
  }
  if (punch) {
    for (uint64_t at = offset; at < std::min(end, size_);) {
      size_t index = at / kPage, in_page = at % kPage;
      size_t n = std::min<uint64_t>(end - at, kPage - in_page);
      if (index < pages_.size() && pages_[index]) {
        if (n == kPage) {
          pages_[index].reset();
          quota_.uncharge(1);
          --charged_;
        } else {
          memset(pages_[index]->data() + in_page, 0, n);
        }
      }
      at += n;
    }
    return {};
  }
  for (size_t i = offset / kPage; i < pages_of(end); ++i) TRY(page_for_write(i));
  if (!keep_size) size_ = std::max(size_, end);
  return {};
}

Result<int64_t> FileData::seek(uint64_t offset, bool hole) {
  if (fd_) {
    off_t r = lseek(fd_.get(), static_cast<off_t>(offset), hole ? SEEK_HOLE : SEEK_DATA);
    if (r < 0) return HostErr();
    return r;
  }
  for (uint64_t at = offset; at < size_; at = (at / kPage + 1) * kPage) {
    bool present = at / kPage < pages_.size() && pages_[at / kPage];
    if (present != hole) return static_cast<int64_t>(at);
  }
  if (hole) return static_cast<int64_t>(size_);
  return Err(ENXIO);
}

Result<void> FileData::migrate() {
  UniqueFd fd(memfd_create("uks-tmpfs", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return HostErr();
  if (ftruncate(fd.get(), static_cast<off_t>(size_)) != 0) return HostErr();
  for (size_t i = 0; i < pages_.size(); ++i) {
    if (!pages_[i]) continue;
    uint64_t at = i * kPage;
    size_t n = std::min<uint64_t>(kPage, size_ > at ? size_ - at : 0);
    for (size_t done = 0; done < n;) {
      ssize_t w = pwrite(fd.get(), pages_[i]->data() + done, n - done, static_cast<off_t>(at + done));
      if (w <= 0) return Err(w < 0 ? errno : ENOSPC);
      done += static_cast<size_t>(w);
    }
  }
  fd_ = std::move(fd);
  pages_.clear();
  pages_.shrink_to_fit();
  recount();
  return {};
}

Result<int> FileData::memfd(bool writable) {
  if (!fd_) TRY(migrate());
  if (writable && !pledged_) {
    uint64_t want = pages_of(size_);
    if (want > charged_) {
      TRY(quota_.charge(want - charged_));
      charged_ = want;
    }
    pledged_ = true;
  }
  return fd_.get();
}

Result<int> FileData::read_only_memfd(keeper::Channel& keeper) {
  TRY(memfd(false));
  if (!read_only_fd_) read_only_fd_ = TRY(keeper.reopen_read_only(fd_.get()));
  return read_only_fd_.get();
}

}  // namespace uks
