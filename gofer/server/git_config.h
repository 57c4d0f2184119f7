// The syntax of git configuration files (git-config(1), "Syntax"; parse_source() in git's
// config.c).
#pragma once
#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uks::gofer {

// One line of it. Section and key are in lower case. What git calls "section.subsection.key" is
// split at its first and last dot, however the header was written.
struct ConfigEntry {
  std::string section;
  std::optional<std::string> subsection;
  std::string key;
  std::optional<std::string> value;  // none: no '=' (true)

  std::string name() const;
  std::string text() const;  // name=value
  auto operator<=>(const ConfigEntry&) const = default;
};

// None: git would not read this file, or not in one way only. Strict, so that both see the same.
std::optional<std::vector<ConfigEntry>> parse_git_config(std::string_view text);

}  // namespace uks::gofer
