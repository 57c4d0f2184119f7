// Paths as text: nothing here asks the host.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace uks::cli {

// Absolute and clean (no `.`, `..`, `//`, trailing `/`): `path` as seen from `base`; a leading `~`
// or
// `~/` is `home`. `..` is resolved as text.
std::string absolute_path(std::string_view path, std::string_view base, std::string_view home);
// True if `path` is `ancestor` or below it.
bool is_at_or_below(std::string_view path, std::string_view ancestor);
bool is_below(std::string_view path, std::string_view ancestor);
std::string parent_of(std::string_view path);
std::string_view base_name(std::string_view path);
// How many components: "/" is 0.
size_t depth_of(std::string_view path);
std::string join(std::string_view dir, std::string_view name);

}  // namespace uks::cli
