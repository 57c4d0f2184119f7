// Reading directories: names at once, then pages of them.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "platform/base/result.h"

namespace uks::gofer {

// All names in an open directory but "." and "..". More than `max`: the first `max`.
Result<std::vector<std::string>> list_names(int dir, size_t max);

// What getdents64(2) says of an entry without a look at the inode.
struct RawEntry {
  std::string name;
  uint64_t ino = 0;
  unsigned char type = 0;  // DT_*
};
Result<std::vector<RawEntry>> list_entries(int dir, size_t max);

// A listing being handed out page by page.
struct Listing {
  uint64_t node = 0;
  std::vector<std::string> names;
  size_t next = 0;
};

// Listings between two pages. Thread-safe. The oldest goes when there are too many.
class Listings {
 public:
  static constexpr size_t kMaxListings = 64;
  static constexpr size_t kMaxNames = 4'000'000;

  // Keeps a listing; its cookie is never 0. `cookie`: the one that it had before, or 0.
  uint64_t put(Listing listing, uint64_t cookie);
  // Takes it out. ESTALE: unknown, or of another node.
  Result<Listing> take(uint64_t cookie, uint64_t node);

 private:
  std::mutex mutex_;
  std::map<uint64_t, Listing> listings_;
  uint64_t next_cookie_ = 1;
};

}  // namespace uks::gofer
