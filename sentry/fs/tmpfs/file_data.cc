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

uint64_t pages_of(uint64_t bytes) { return PageQuota::pages_of(bytes); }

}  // namespace

uint64_t FileData::blocks() {
  if (!host_.valid()) return host_.account()->pages() * 8;
  struct stat st;
  if (host_fstat(host_.fd(), &st) != 0) return host_.account()->pages() * 8;
  return static_cast<uint64_t>(st.st_blocks);
}

Result<size_t> FileData::read(uint64_t pos, IoSink& sink) {
  size_t done = 0;
  while (sink.remaining() > 0 && pos < size_) {
    uint64_t left = size_ - pos;
    if (host_.valid()) {
      auto span = sink.prepare(std::min<uint64_t>(left, kIoChunk));
      ssize_t n;
      int error = 0;
      int fd =
          host_.fd();  // stays open: the caller holds the inode, and the memfd never changes back
      {
        Unlocked unlocked;
        n = pread(fd, span.data(), span.size(), static_cast<off_t>(pos));
        if (n < 0) error = errno;
      }
      if (n < 0) return done ? Result<size_t>(done) : Err(error);
      if (n == 0) break;
      if (auto r = sink.commit(static_cast<size_t>(n)); !r)
        return done ? Result<size_t>(done) : Err(r.error());
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
    TRY(host_.account()->grow(1));
    pages_[index] = std::make_unique<Page>();
  }
  return pages_[index].get();
}

Result<size_t> FileData::write(uint64_t pos, IoSource& source) {
  if (pos >= kMaxSize) return Err(EFBIG);
  host_.account()->quota().make_room(pages_of(std::min<uint64_t>(source.remaining(), kIoChunk)));
  uint64_t end = std::min(kMaxSize, pos + source.remaining());
  if (!host_.valid() && end > kMaxHeap) TRY(migrate());
  size_t done = 0;
  while (pos < end && source.remaining() > 0) {
    if (host_.valid()) {
      auto peeked = source.peek(std::min<uint64_t>(end - pos, kIoChunk));
      if (!peeked) return done ? Result<size_t>(done) : Err(peeked.error());
      // What fits, when little is left.
      const uint64_t room = host_.account()->quota().available();
      auto span =
          peeked->first(room < 2 ? peeked->size() : std::min(peeked->size(), (room - 1) * kPage));
      const auto reserved = host_.reserve(span.size());
      if (!reserved) return done ? Result<size_t>(done) : Err(reserved.error());
      // The size counts at once, so that an appender that runs meanwhile starts behind this write.
      uint64_t old_size = size_;
      size_ = std::max(size_, pos + span.size());
      ssize_t n;
      int error = 0;
      int fd = host_.fd();
      {
        Unlocked unlocked;
        n = pwrite(fd, span.data(), span.size(), static_cast<off_t>(pos));
        if (n < 0) error = errno;
      }
      host_.settle(*reserved);
      if (n < 0) {
        if (size_ == pos + span.size()) size_ = old_size;
        return done ? Result<size_t>(done) : Err(error);
      }
      source.advance(static_cast<size_t>(n));
      pos += static_cast<uint64_t>(n);
      // The file may have been cut meanwhile.
      size_ = std::max(size_, pos);
      done += static_cast<size_t>(n);
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
  if (!host_.valid() && size > kMaxHeap) {
    // A sparse file stays on the heap while its data is small enough; only its size may be large.
    TRY(migrate());
  }
  if (host_.valid()) {
    TRY(host_.truncate(size));
    size_ = size;
    return {};
  }
  size_t keep = pages_of(size);
  for (size_t i = keep; i < pages_.size(); ++i) {
    if (pages_[i]) host_.account()->set(host_.account()->pages() - 1);
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
  if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
    return Err(EOPNOTSUPP);
  if (punch && (!keep_size || zero)) return Err(EOPNOTSUPP);
  // tmpfs knows no ZERO_RANGE (mm/shmem.c).
  if (zero) return Err(EOPNOTSUPP);
  if (!host_.valid() && end > kMaxHeap && !punch) TRY(migrate());
  if (host_.valid()) {
    const uint64_t reserved = punch ? 0 : TRY(host_.reserve(length));
    int fd = host_.fd(), r, error = 0;
    {
      Unlocked unlocked;
      r = fallocate(fd, mode, static_cast<off_t>(offset), static_cast<off_t>(length));
      if (r != 0) error = errno;
    }
    host_.settle(reserved);
    if (r != 0) return Err(error);
    if (!keep_size) size_ = std::max(size_, end);
    return {};
  }
  if (punch) {
    for (uint64_t at = offset; at < std::min(end, size_);) {
      size_t index = at / kPage, in_page = at % kPage;
      size_t n = std::min<uint64_t>(end - at, kPage - in_page);
      if (index < pages_.size() && pages_[index]) {
        if (n == kPage) {
          pages_[index].reset();
          host_.account()->set(host_.account()->pages() - 1);
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
  if (host_.valid()) {
    off_t r = lseek(host_.fd(), static_cast<off_t>(offset), hole ? SEEK_HOLE : SEEK_DATA);
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
      ssize_t w =
          pwrite(fd.get(), pages_[i]->data() + done, n - done, static_cast<off_t>(at + done));
      if (w <= 0) return Err(w < 0 ? errno : ENOSPC);
      done += static_cast<size_t>(w);
    }
  }
  host_.set_fd(std::move(fd));
  pages_.clear();
  pages_.shrink_to_fit();
  host_.recount();
  return {};
}

Result<FileData::Mapping> FileData::memfd() {
  if (!host_.valid()) TRY(migrate());
  Ref<PageAccount> pages = TRY(host_.pledge());
  return Mapping{host_.fd(), std::move(pages)};
}

Result<FileData::Mapping> FileData::read_only_memfd(keeper::Channel& keeper) {
  Mapping mapping = TRY(memfd());
  if (!read_only_fd_) read_only_fd_ = TRY(keeper.reopen_read_only(host_.fd()));
  mapping.fd = read_only_fd_.get();
  return mapping;
}

}  // namespace uks
