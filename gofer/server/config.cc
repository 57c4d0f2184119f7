// Parsing of the gofer's configuration.
#include "gofer/server/config.h"

#define JSON_NOEXCEPTION 1
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace uks::gofer {
namespace {

using Json = nlohmann::json;

bool is_absolute_clean(const std::string& path) {
  if (path.empty() || path[0] != '/' || path.size() > 4095 || path.find('\0') != std::string::npos)
    return false;
  // ".." would make prefix matching lie.
  return !(path + "/").contains("/../");
}

const std::string* string_field(const Json& object, const char* key) {
  auto it = object.find(key);
  return it == object.end() ? nullptr : it->get_ptr<const std::string*>();
}

bool only_keys(const Json& object, std::initializer_list<std::string_view> keys) {
  for (auto it = object.begin(); it != object.end(); ++it) {
    if (std::find(keys.begin(), keys.end(), std::string_view(it.key())) == keys.end()) return false;
  }
  return true;
}

bool bool_field(const Json& object, const char* key, bool fallback, bool& ok) {
  auto it = object.find(key);
  if (it == object.end()) return fallback;
  if (const bool* value = it->get_ptr<const bool*>()) return *value;
  ok = false;
  return fallback;
}

bool parse_tree(const Json& json, Config& config) {
  if (!json.is_object() || !only_keys(json, {"root", "writable"})) return false;
  const std::string* root = string_field(json, "root");
  bool ok = root && is_absolute_clean(*root);
  bool writable = bool_field(json, "writable", false, ok);
  if (ok) config.trees.push_back({*root, writable});
  return ok;
}

bool parse_rule(const Json& json, Config& config) {
  if (!json.is_object() || !only_keys(json, {"path", "action", "track"})) return false;
  const std::string* path = string_field(json, "path");
  const std::string* action = string_field(json, "action");
  if (!path || !action || !is_absolute_clean(*path)) return false;
  if (static_cast<size_t>(std::count(path->begin(), path->end(), '/')) > RuleSet::kMaxComponents)
    return false;
  Rule rule;
  rule.path = *path;
  bool ok = true;
  rule.track = bool_field(json, "track", true, ok);
  if (*action == "rw") {
    rule.action = Action::kRw;
  } else if (*action == "ro") {
    rule.action = Action::kRo;
  } else if (*action == "deny") {
    rule.action = Action::kDeny;
  } else if (*action == "absent") {
    rule.action = Action::kAbsent;
  } else {
    ok = false;
  }
  if (ok) config.rules.push_back(std::move(rule));
  return ok;
}

}  // namespace

bool parse_config(std::string_view text, Config& config, std::string& problem) {
  config = {};
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    problem = "not a JSON object";
    return false;
  }
  if (!only_keys(json, {"trees", "rules", "protect_repositories"})) {
    problem = "unknown key";
    return false;
  }
  auto trees = json.find("trees");
  if (trees == json.end() || !trees->is_array() || trees->size() > 1024) {
    problem = "no list of trees";
    return false;
  }
  for (const Json& tree : *trees) {
    if (!parse_tree(tree, config)) {
      problem =
          fmt::format("bad tree {}", tree.dump(-1, ' ', true, Json::error_handler_t::replace));
      return false;
    }
  }
  bool ok = true;
  config.protect_repositories = bool_field(json, "protect_repositories", true, ok);
  if (!ok) {
    problem = "bad protect_repositories";
    return false;
  }
  auto rules = json.find("rules");
  if (rules == json.end()) return true;
  if (!rules->is_array() || rules->size() > RuleSet::kMaxRules) {
    problem = "bad list of rules";
    return false;
  }
  for (const Json& rule : *rules) {
    if (!parse_rule(rule, config)) {
      problem =
          fmt::format("bad rule {}", rule.dump(-1, ' ', true, Json::error_handler_t::replace));
      return false;
    }
  }
  return true;
}

}  // namespace uks::gofer
