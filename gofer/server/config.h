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
  std::vector<TreeConfig> trees;
  std::vector<Rule> rules;
  bool protect_repositories = true;
};

// Reads the JSON text that gofer_main() describes. On failure returns false and says in `problem`
// what is wrong. Unknown keys are refused: a mistyped rule must not be a rule that silently does
// nothing.
bool parse_config(std::string_view text, Config& config, std::string& problem);

}  // namespace uks::gofer
