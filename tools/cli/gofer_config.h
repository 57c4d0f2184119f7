// The view as the gofer's configuration.
#pragma once
#include <string>

#include "tools/cli/view_policy.h"

namespace uks::cli {

// Empty: more rules than the gofer takes.
std::string encode_gofer_config(const View& view, bool protect_repositories);

}  // namespace uks::cli
