// PageQuota: how many pages guests may make the sandbox hold; PageAccount: one object's share of
// it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>

#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "sentry/task/close_later.h"

namespace uks {

// Kernel::pages is the sandbox's, of which files get all but a reserve (Kernel::file_pages); a
// tmpfs with a size of its own has one below that, and all count. All under the kernel lock.
class PageQuota final : public RefCounted {
 public:
  static constexpr uint64_t kPage = 4096;  // bytes

  explicit PageQuota(uint64_t limit_pages, Ref<PageQuota> parent = nullptr)
      : limit_(limit_pages), parent_(std::move(parent)) {}

  static constexpr uint64_t pages_of(uint64_t bytes) {
    return bytes / kPage + (bytes % kPage != 0);
  }

  // ENOSPC; callers turn it into what their call says.
  Result<void> charge(uint64_t pages) {
    if (pages > available()) return Err(ENOSPC);
    force(pages);
    return {};
  }
  // Also beyond the limit: for what the host has allocated already.
  void force(uint64_t pages) {
    used_ += pages;
    if (parent_) parent_->force(pages);
  }
  void uncharge(uint64_t pages) {
    used_ -= pages;
    if (parent_) parent_->uncharge(pages);
  }
  uint64_t available() const { return parent_ ? std::min(own(), parent_->available()) : own(); }
  uint64_t used() const { return used_; }
  uint64_t limit() const { return limit_; }
  // Before ENOSPC, if `pages` more do not fit: waits for files that are being freed, asks the host
  // what is really mapped. May drop the kernel lock.
  void make_room(uint64_t pages) {
    if (pages > available() && used_ > 0) (void)wait_for_closes();
    if (pages > own() && used_ > 0 && reclaim) reclaim();
    if (parent_) parent_->make_room(pages);
  }
  std::function<void()> reclaim;  // of the sandbox's quotas

 private:
  uint64_t own() const { return limit_ - std::min(used_, limit_); }

  uint64_t limit_;
  uint64_t used_ = 0;
  Ref<PageQuota> parent_;
};

// Charged as long as anybody refers to it: the object, and every address space that may map it.
class PageAccount : public RefCounted {
 public:
  explicit PageAccount(Ref<PageQuota> quota) : quota_(std::move(quota)) {}
  ~PageAccount() override { quota_->uncharge(pages_); }

  uint64_t pages() const { return pages_; }
  PageQuota& quota() { return *quota_; }
  // ENOSPC.
  Result<void> grow(uint64_t pages) {
    TRY(quota_->charge(pages));
    pages_ += pages;
    return {};
  }
  // Shrinks, or grows without asking.
  void set(uint64_t pages) {
    if (pages > pages_) quota_->force(pages - pages_);
    if (pages < pages_) quota_->uncharge(pages_ - pages);
    pages_ = pages;
  }

 private:
  Ref<PageQuota> quota_;
  uint64_t pages_ = 0;
};

// A quarter of the machine's memory, in pages.
uint64_t default_page_limit();
// What of that only pipes and sockets may have: up to 128 MiB.
constexpr uint64_t message_reserve(uint64_t limit) { return std::min<uint64_t>(limit / 16, 32768); }

}  // namespace uks
