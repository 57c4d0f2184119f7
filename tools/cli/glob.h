// Globs for names (not paths): `*` any run of characters, `?` any one.
#pragma once
#include <string_view>

namespace uks::cli {

bool name_matches(std::string_view pattern, std::string_view name, bool ignore_case);
// True if `path` holds a character that the globs know.
bool has_glob(std::string_view path);

}  // namespace uks::cli
