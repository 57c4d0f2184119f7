// ChargedMemfd: a host memfd whose pages count against a PageQuota.
#pragma once
#include "platform/base/unique_fd.h"
#include "sentry/task/page_quota.h"

namespace uks {

// While only the sentry writes it, it is charged for the blocks that it really has. Once it may be
// mapped it is charged for its whole size: whoever touches a hole of a mapping, even to read, makes
// the host allocate a page (shmem_fault()), and nobody is asked. Back to blocks when the last
// address space that may map it has let go.
class ChargedMemfd {
 public:
  // Freeing this many pages at once is bearable with the kernel lock held (4 ms).
  static constexpr uint64_t kFewPages = 2048;

  explicit ChargedMemfd(Ref<PageQuota> quota) : account_(make_ref<PageAccount>(std::move(quota))) {}
  ~ChargedMemfd();
  ChargedMemfd(const ChargedMemfd&) = delete;
  ChargedMemfd& operator=(const ChargedMemfd&) = delete;

  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  void set_fd(UniqueFd fd) { fd_ = std::move(fd); }
  const Ref<PageAccount>& account() const { return account_; }

  // reserve() and pledge() may drop the kernel lock.
  //
  // Charges in advance for writing or allocating `length` bytes, about which only the host knows
  // how many are new. ENOSPC. Give the result to settle() afterwards.
  Result<uint64_t> reserve(uint64_t length);
  void settle(uint64_t reserved);
  // Makes the charge what the host says.
  void recount();
  // For a mapping: to be kept by the address space. ENOSPC.
  Result<Ref<PageAccount>> pledge();
  // ENOSPC for a size that is mapped and would not fit; the host's errors. Frees much piece by
  // piece and lets others have the kernel lock in between: they may see zeros beyond `size` before
  // the file is short.
  Result<void> truncate(uint64_t size);

 private:
  // Frees what lies beyond `size` but for the last few pages.
  void free_tail(uint64_t size);

  UniqueFd fd_;
  Ref<PageAccount> account_;
  uint64_t in_flight_ = 0;  // pages reserved
  bool pledged_ = false;
};

}  // namespace uks
