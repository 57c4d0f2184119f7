// Directory listings.
#include "gofer/server/directory.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace uks::gofer {

namespace {

// Calls `take` for each entry but "." and ".." until it returns false.
template <typename Take>
Result<void> for_each_entry(int dir, const Take& take) {
  alignas(dirent64) char buffer[32 * 1024];
  while (true) {
    long size = syscall(SYS_getdents64, dir, buffer, sizeof(buffer));
    if (size < 0) return HostErr();
    if (size == 0) return {};
    for (long at = 0; at < size;) {
      auto* entry = reinterpret_cast<dirent64*>(buffer + at);
      at += entry->d_reclen;
      const char* name = entry->d_name;
      if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
      if (!take(*entry)) return {};
    }
  }
}

}  // namespace

Result<std::vector<std::string>> list_names(int dir, size_t max) {
  std::vector<std::string> names;
  TRY(for_each_entry(dir, [&](const dirent64& entry) {
    if (names.size() >= max) return false;
    names.emplace_back(entry.d_name);
    return true;
  }));
  return names;
}

Result<std::vector<RawEntry>> list_entries(int dir, size_t max) {
  std::vector<RawEntry> entries;
  TRY(for_each_entry(dir, [&](const dirent64& entry) {
    if (entries.size() >= max) return false;
    entries.push_back({entry.d_name, entry.d_ino, entry.d_type});
    return true;
  }));
  return entries;
}

uint64_t Listings::put(Listing listing, uint64_t cookie) {
  std::lock_guard lock(mutex_);
  if (cookie == 0) cookie = next_cookie_++;
  if (listings_.size() >= kMaxListings) listings_.erase(listings_.begin());
  listings_.emplace(cookie, std::move(listing));
  return cookie;
}

Result<Listing> Listings::take(uint64_t cookie, uint64_t node) {
  std::lock_guard lock(mutex_);
  auto found = listings_.find(cookie);
  if (found == listings_.end() || found->second.node != node) return Err(ESTALE);
  Listing listing = std::move(found->second);
  listings_.erase(found);
  return listing;
}

}  // namespace uks::gofer
