// Writes the gofer's configuration.
#include "tools/cli/gofer_config.h"

#define JSON_NOEXCEPTION 1  // as in sentry/boot/config.cc: one kind of nlohmann-json in the binary
#include <nlohmann/json.hpp>

namespace uks::cli {

bool is_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned char first = byte(i);
    size_t more = 0;
    uint32_t code = first;
    if (first >= 0xf0 && first < 0xf5) {
      more = 3;
      code = first & 0x07;
    } else if (first >= 0xe0 && first < 0xf0) {
      more = 2;
      code = first & 0x0f;
    } else if (first >= 0xc2 && first < 0xe0) {
      more = 1;
      code = first & 0x1f;
    } else if (first >= 0x80) {
      return false;
    }
    if (text.size() - i <= more) return false;
    for (size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
      code = code << 6 | (byte(i + k) & 0x3f);
    }
    const bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
    if (overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += more + 1;
  }
  return true;
}

std::optional<std::string> encode_gofer_config(const View& view, bool protect_repositories, std::string& bad_path) {
  using nlohmann::json;
  json trees = json::array();
  for (const GoferTree& tree : view.trees) {
    if (!is_utf8(tree.root)) {
      bad_path = tree.root;
      return std::nullopt;
    }
    trees.push_back({{"root", tree.root}, {"writable", tree.writable}});
  }
  json rules = json::array();
  for (const GoferRule& rule : view.rules) {
    if (!is_utf8(rule.path)) {
      bad_path = rule.path;
      return std::nullopt;
    }
    json object = {{"path", rule.path}, {"action", action_name(rule.action)}};
    if (!rule.track) object["track"] = false;
    rules.push_back(std::move(object));
  }
  const json object = {
      {"trees", std::move(trees)}, {"rules", std::move(rules)}, {"protect_repositories", protect_repositories}};
  return object.dump();
}

}  // namespace uks::cli
