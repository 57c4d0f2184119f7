// The codec of the gofer's configuration.
#include "gofer/server/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "gofer/proto/codec.h"

namespace uks::gofer {
namespace {

constexpr uint32_t kMagic = 0x31676667;  // "gfg1"
constexpr size_t kMaxTrees = 1024;
constexpr size_t kMaxPath = 4095;

// ".." would make prefix matching lie.
bool is_absolute_clean(const std::string& path) {
  return path.starts_with('/') && !path.contains('\0') && !(path + "/").contains("/../");
}

bool is_acceptable(const Rule& rule) {
  return is_absolute_clean(rule.path) && rule.action <= Action::kAbsent &&
         static_cast<size_t>(std::ranges::count(rule.path, '/')) <= RuleSet::kMaxComponents;
}

}  // namespace

std::string encode_config(const Config& config) {
  Writer out(kMaxConfig);
  out.u32(kMagic);
  out.u32(config.protect_repositories);
  out.u32(static_cast<uint32_t>(config.trees.size()));
  for (const TreeConfig& tree : config.trees) {
    out.string(tree.root);
    out.u32(tree.writable);
  }
  out.u32(static_cast<uint32_t>(config.rules.size()));
  for (const Rule& rule : config.rules) {
    out.string(rule.path);
    out.u32(static_cast<uint32_t>(rule.action));
    out.u32(rule.track);
  }
  return out.overflow() ? std::string() : out.bytes();
}

bool parse_config(std::string_view bytes, Config& config, std::string& problem) {
  config = {};
  Reader in(bytes);
  if (in.u32() != kMagic) {
    problem = "not a configuration";
    return false;
  }
  config.protect_repositories = in.u32() != 0;
  const uint32_t trees = in.u32();
  if (trees > kMaxTrees) {
    problem = "too many trees";
    return false;
  }
  for (uint32_t i = 0; in.ok() && i < trees; ++i) {
    TreeConfig tree;
    tree.root = in.string(kMaxPath);
    tree.writable = in.u32() != 0;
    if (!is_absolute_clean(tree.root)) {
      problem = fmt::format("bad tree '{}'", tree.root);
      return false;
    }
    config.trees.push_back(std::move(tree));
  }
  const uint32_t rules = in.u32();
  if (rules > RuleSet::kMaxRules) {
    problem = "too many rules";
    return false;
  }
  config.rules.reserve(rules);
  for (uint32_t i = 0; in.ok() && i < rules; ++i) {
    Rule rule;
    rule.path = in.string(kMaxPath);
    // What is out of range must not become an action by being cut.
    rule.action = static_cast<Action>(std::min<uint32_t>(in.u32(), UINT8_MAX));
    rule.track = in.u32() != 0;
    if (!is_acceptable(rule)) {
      problem = fmt::format("bad rule '{}'", rule.path);
      return false;
    }
    config.rules.push_back(std::move(rule));
  }
  if (!in.done()) problem = "cut off, or too long";
  return in.done();
}

}  // namespace uks::gofer
