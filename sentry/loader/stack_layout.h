// The first bytes of a new image's stack: strings, auxiliary vector, environment, arguments.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace uks {

struct StackContents {
  std::vector<std::string> argv, envp;
  std::string exec_path;                            // AT_EXECFN
  std::vector<std::pair<uint64_t, uint64_t>> auxv;  // without the entries that point into the stack
  unsigned char random[16] = {};                    // AT_RANDOM
};

struct StackImage {
  uint64_t start = 0;  // where `bytes` go; the new stack pointer
  std::string bytes;   // up to the stack's top
  uint64_t arg_start = 0, arg_end = 0, env_start = 0, env_end = 0;
  std::vector<std::pair<uint64_t, uint64_t>> auxv;  // complete
};

// As create_elf_tables() in the kernel lays it out (and the x86-64 psABI, "Initial Stack").
StackImage build_stack(const StackContents& contents, uint64_t top);

}  // namespace uks
