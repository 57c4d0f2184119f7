// What a memfd is charged for.
#include "sentry/fs/tmpfs/charged_memfd.h"

#include <sys/stat.h>
#include <unistd.h>

#include "sentry/vfs/host_io.h"

namespace uks {

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
  int error = 0;
  if (ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) error = errno;
  recount();
  if (error) return Err(error);
  return {};
}

}  // namespace uks
