#include "platform/fake/fake_memory.h"

#include <algorithm>
#include <cstring>

namespace uks::fake {

void Memory::map(uint64_t addr, uint64_t n) {
  for (uint64_t page = addr / kPage; page * kPage < addr + n; page++) pages_[page] = {};
}

void Memory::unmap(uint64_t addr, uint64_t n) {
  pages_.erase(pages_.lower_bound(addr / kPage),
               pages_.lower_bound((addr + n + kPage - 1) / kPage));
}

uint64_t Memory::read(uint64_t addr, void* to, uint64_t n) const {
  uint64_t done = 0;
  while (done < n) {
    const auto page = pages_.find((addr + done) / kPage);
    if (page == pages_.end()) break;
    const uint64_t at = (addr + done) % kPage;
    const uint64_t part = std::min(n - done, kPage - at);
    memcpy(static_cast<char*>(to) + done, page->second.data() + at, part);
    done += part;
  }
  return done;
}

uint64_t Memory::write(uint64_t addr, const void* from, uint64_t n) {
  uint64_t done = 0;
  while (done < n) {
    const auto page = pages_.find((addr + done) / kPage);
    if (page == pages_.end()) break;
    const uint64_t at = (addr + done) % kPage;
    const uint64_t part = std::min(n - done, kPage - at);
    memcpy(page->second.data() + at, static_cast<const char*>(from) + done, part);
    done += part;
  }
  return done;
}

}  // namespace uks::fake
