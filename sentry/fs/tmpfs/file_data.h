// FileData: the bytes of one tmpfs file. Pages on the heap with holes while it is small and unmapped,
// then one memfd of its own (a memfd for every small file would use up the host's descriptors).
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "platform/base/result.h"
#include "platform/base/unique_fd.h"
#include "platform/keeper/channel.h"
#include "sentry/usermem/io.h"

namespace uks {

// Pages of one tmpfs, all files together.
class PageQuota {
 public:
  explicit PageQuota(uint64_t limit_pages) : limit_(limit_pages) {}
  Result<void> charge(uint64_t pages) {
    if (pages > limit_ - used_) return Err(ENOSPC);
    used_ += pages;
    return {};
  }
  void uncharge(uint64_t pages) { used_ -= pages; }
  // For what the host's page cache took by itself (writes through mappings).
  void force(uint64_t pages) { used_ = std::min(limit_, used_ + pages); }
  uint64_t used() const { return used_; }
  uint64_t limit() const { return limit_; }

 private:
  uint64_t limit_;
  uint64_t used_ = 0;
};

class FileData {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr uint64_t kMaxHeap = 1024 * 1024;  // bytes; larger files get a memfd

  explicit FileData(PageQuota& quota) : quota_(quota) {}
  ~FileData();
  FileData(const FileData&) = delete;
  FileData& operator=(const FileData&) = delete;

  uint64_t size() const { return size_; }
  uint64_t blocks();  // of 512 bytes, really in use

  // Bytes done; short at the end of the file. May drop the kernel lock.
  Result<size_t> read(uint64_t pos, IoSink& sink);
  // ENOSPC, EFBIG. Bytes done.
  Result<size_t> write(uint64_t pos, IoSource& source);
  Result<void> truncate(uint64_t size);
  // fallocate(2): mode 0, KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE; others EOPNOTSUPP.
  Result<void> allocate(int mode, uint64_t offset, uint64_t length);
  // Offset of the next data or hole at or after `offset` (< size). ENXIO: no more data.
  Result<int64_t> seek(uint64_t offset, bool hole);
  // The memfd, made now if there was none. With `writable` the whole size counts as used, since the
  // host fills holes without asking.
  Result<int> memfd(bool writable);
  // A descriptor of it that cannot write, for guests that may only read (HAZARDS S6): a mapping of a
  // writable one could be made writable with mprotect.
  Result<int> read_only_memfd(keeper::Channel& keeper);

 private:
  using Page = std::array<char, kPage>;
  Result<void> migrate();
  // Brings the quota in line with what the memfd really uses.
  void recount();
  Result<Page*> page_for_write(size_t index);

  PageQuota& quota_;
  uint64_t size_ = 0;
  std::vector<std::unique_ptr<Page>> pages_;
  UniqueFd fd_;
  UniqueFd read_only_fd_;
  uint64_t charged_ = 0;   // pages
  bool pledged_ = false;   // charged by size, not by use
};

}  // namespace uks
