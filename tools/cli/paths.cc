// Path arithmetic.
#include "tools/cli/paths.h"

#include <algorithm>
#include <vector>

namespace uks::cli {

std::string absolute_path(std::string_view path, std::string_view base, std::string_view home) {
  std::string full;
  if (!home.empty() && (path == "~" || path.starts_with("~/"))) {
    full = std::string(home) + std::string(path.substr(1));
  } else if (path.starts_with('/')) {
    full = std::string(path);
  } else {
    full = std::string(base) + "/" + std::string(path);
  }
  std::vector<std::string_view> parts;
  std::string_view rest = full;
  while (!rest.empty()) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else {
      parts.push_back(part);
    }
  }
  std::string result;
  for (const std::string_view part : parts) (result += '/') += part;
  return result.empty() ? "/" : result;
}

bool is_below(std::string_view path, std::string_view ancestor) {
  if (ancestor == "/") return path.size() > 1;
  return path.size() > ancestor.size() && path[ancestor.size()] == '/' &&
         path.starts_with(ancestor);
}

bool is_at_or_below(std::string_view path, std::string_view ancestor) {
  return path.size() == ancestor.size() ? path == ancestor : is_below(path, ancestor);
}

std::string parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string_view::npos ? "/" : std::string(path.substr(0, slash));
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

size_t depth_of(std::string_view path) {
  return path == "/" ? 0 : static_cast<size_t>(std::ranges::count(path, '/'));
}

std::string join(std::string_view dir, std::string_view name) {
  if (dir == "/") dir = "";
  std::string path;
  path.reserve(dir.size() + 1 + name.size());
  return path.append(dir).append(1, '/').append(name);
}

}  // namespace uks::cli
