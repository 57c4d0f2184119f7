// The loader: bounded checks of ELF headers and the plan of what to map. Never parses sections or
// DWARF.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "platform/base/result.h"
#include "sentry/vfs/file.h"

namespace uks {

class Task;

struct ElfSegment {
  uint64_t address;      // page-aligned, relative to the image
  uint64_t file_offset;  // page-aligned
  uint64_t file_size;    // bytes from file_offset that are mapped (whole segment start included)
  uint64_t memory_size;  // bytes from `address`
  int protection;        // PROT_*
};

struct ElfImage {
  bool position_independent = false;
  uint64_t entry = 0;
  uint64_t low = 0, high = 0;  // extent, page-aligned
  uint64_t headers = 0;        // address of the program headers
  uint16_t header_count = 0, header_size = 0;
  bool executable_stack = false;
  std::string interpreter;  // empty: static
  std::vector<ElfSegment> segments;
  uint64_t code_start = 0, code_end = 0;
};

// Reads and checks the headers of `file`. ENOEXEC for what is no x86-64 ELF that Linux would run;
// EINVAL or ENOMEM for absurd headers, as Linux says.
Result<ElfImage> read_elf(Task& task, File& file);

}  // namespace uks
