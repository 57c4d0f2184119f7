// The gofer's configuration: the trees that it serves and the rules within them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "gofer/server/rules.h"

namespace uks::gofer {

struct TreeConfig {
  std::string root;  // absolute path on the host
  bool writable = false;
};

struct Config {
  std::vector<TreeConfig> trees = {};
  std::vector<Rule> rules = {};
  RepeatedRules repeated = {};
  bool protect_repositories = true;
};

inline constexpr size_t kMaxConfig = 16 << 20;  // bytes

// In the encoding of proto/codec.h: paths are bytes, and nobody but the keeper writes it, each time
// anew. Empty: more than kMaxConfig bytes.
std::string encode_config(const Config& config);

// Reads that. On failure returns false and says in `problem` what is wrong.
bool parse_config(std::string_view bytes, Config& config, std::string& problem);

}  // namespace uks::gofer
