// The gofer's configuration as the JSON text that gofer/server/main.h describes.
#pragma once
#include <optional>
#include <string>

#include "tools/cli/view_policy.h"

namespace uks::cli {

// Nothing if a path is not UTF-8, which JSON cannot carry; `bad_path` is then that path.
std::optional<std::string> encode_gofer_config(const View& view, bool protect_repositories, std::string& bad_path);

bool is_utf8(std::string_view text);

}  // namespace uks::cli
