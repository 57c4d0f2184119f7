// Name globs, matched without recursion: linear back-tracking to the last star.
#include "tools/cli/glob.h"

#include <algorithm>

namespace uks::cli {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool name_matches(std::string_view pattern, std::string_view name, bool ignore_case) {
  const auto same = [&](char a, char b) { return a == b || (ignore_case && lower(a) == lower(b)); };
  size_t p = 0, n = 0;
  size_t star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || same(pattern[p], name[n]))) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool has_glob(std::string_view path) {
  return std::ranges::any_of(path, [](char c) { return c == '*' || c == '?'; });
}

}  // namespace uks::cli
