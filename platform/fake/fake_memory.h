// A guest's memory in a unit test: pages by number.
#pragma once
#include <array>
#include <cstdint>
#include <map>

namespace uks::fake {

class Memory {
 public:
  static constexpr uint64_t kPage = 4096;

  // Zeroed pages around [addr, addr + n); what is there already goes.
  void map(uint64_t addr, uint64_t n);
  void unmap(uint64_t addr, uint64_t n);
  // How many bytes could be copied: fewer than n where a page is missing.
  uint64_t read(uint64_t addr, void* to, uint64_t n) const;
  uint64_t write(uint64_t addr, const void* from, uint64_t n);

 private:
  std::map<uint64_t, std::array<char, kPage>> pages_;
};

}  // namespace uks::fake
