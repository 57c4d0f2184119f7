// FileData: the bytes of one tmpfs file. Pages on the heap with holes while it is small and
// unmapped, then one memfd of its own (a memfd for every small file would use up the host's
// descriptors).
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "platform/base/result.h"
#include "platform/base/unique_fd.h"
#include "platform/keeper/channel.h"
#include "sentry/fs/tmpfs/charged_memfd.h"
#include "sentry/usermem/io.h"

namespace uks {

class FileData {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr uint64_t kMaxHeap = 1024 * 1024;  // bytes; larger files get a memfd

  explicit FileData(Ref<PageQuota> quota) : host_(std::move(quota)) {}
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
  // The memfd, made now if there was none, and what the address space that maps it must keep.
  struct Mapping {
    int fd;
    Ref<PageAccount> pages;
  };
  Result<Mapping> memfd();
  // A descriptor of it that cannot write, for guests that may only read (HAZARDS S6): a mapping of
  // a writable one could be made writable with mprotect.
  Result<Mapping> read_only_memfd(keeper::Channel& keeper);

 private:
  using Page = std::array<char, kPage>;
  Result<void> migrate();
  Result<Page*> page_for_write(size_t index);

  uint64_t size_ = 0;
  std::vector<std::unique_ptr<Page>> pages_;
  ChargedMemfd host_;
  UniqueFd read_only_fd_;
};

}  // namespace uks
