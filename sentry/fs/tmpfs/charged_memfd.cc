// What a memfd is charged for.
#include "sentry/fs/tmpfs/charged_memfd.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sentry/task/close_later.h"
#include "sentry/task/kernel_lock.h"
#include "sentry/vfs/host_io.h"

namespace uks {

ChargedMemfd::~ChargedMemfd() {
  if (fd_.valid() && account_->pages() > kFewPages) close_later(std::move(fd_), account_);
}

void ChargedMemfd::free_tail(uint64_t size) {
  constexpr uint64_t kStep = kFewPages * PageQuota::kPage;
  struct stat st;
  if (host_fstat(fd_.get(), &st) != 0 || static_cast<uint64_t>(st.st_size) <= size) return;
  const int seals = fcntl(fd_.get(), F_GET_SEALS);
  if (seals > 0 && (seals & F_SEAL_SHRINK)) return;  // ftruncate() will refuse
  const uint64_t end = static_cast<uint64_t>(st.st_size);
  uint64_t blocks = static_cast<uint64_t>(st.st_blocks);
  const int fd = fd_.get();  // stays: the caller holds the object
  uint64_t at = PageQuota::pages_of(size) * PageQuota::kPage;
  while (blocks > kStep / 512 && at < end) {
    const off_t data = lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 || static_cast<uint64_t>(data) >= end) return;
    // EPERM of a write seal: then ftruncate() has to do it in one go.
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, data,
                  static_cast<off_t>(kStep)) != 0)
      return;
    at = static_cast<uint64_t>(data) + kStep;
    yield_kernel_lock();
    if (host_fstat(fd, &st) != 0) return;
    blocks = static_cast<uint64_t>(st.st_blocks);
  }
}

Result<uint64_t> ChargedMemfd::reserve(uint64_t length) {
  const uint64_t pages = PageQuota::pages_of(length) + 1;  // it may start within a page
  if (pages > account_->quota().available()) recount();
  account_->quota().make_room(pages);
  TRY(account_->grow(pages));
  in_flight_ += pages;
  return pages;
}

void ChargedMemfd::settle(uint64_t reserved) {
  in_flight_ -= reserved;
  recount();
}

void ChargedMemfd::recount() {
  struct stat st;
  if (!fd_.valid() || host_fstat(fd_.get(), &st) != 0) return;
  if (pledged_ && account_->ref_count() == 1) pledged_ = false;
  uint64_t pages = static_cast<uint64_t>(st.st_blocks) / (PageQuota::kPage / 512);
  if (pledged_) pages = std::max(pages, PageQuota::pages_of(static_cast<uint64_t>(st.st_size)));
  account_->set(pages + in_flight_);
}

Result<Ref<PageAccount>> ChargedMemfd::pledge() {
  struct stat st;
  if (host_fstat(fd_.get(), &st) != 0) return HostErr();
  uint64_t pages = PageQuota::pages_of(static_cast<uint64_t>(st.st_size)) + in_flight_;
  if (pages > account_->pages()) account_->quota().make_room(pages - account_->pages());
  // The lock may have been dropped: again.
  if (host_fstat(fd_.get(), &st) != 0) return HostErr();
  pages = PageQuota::pages_of(static_cast<uint64_t>(st.st_size)) + in_flight_;
  if (pages > account_->pages()) TRY(account_->grow(pages - account_->pages()));
  pledged_ = true;
  return account_;
}

Result<void> ChargedMemfd::truncate(uint64_t size) {
  const uint64_t pages = PageQuota::pages_of(size) + in_flight_;
  if (pledged_ && account_->ref_count() > 1 && pages > account_->pages())
    TRY(account_->grow(pages - account_->pages()));
  free_tail(size);
  int error = 0;
  if (ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) error = errno;
  recount();
  if (error) return Err(error);
  return {};
}

}  // namespace uks
