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

void put_rules(Writer& out, const std::vector<Rule>& rules) {
  out.u32(static_cast<uint32_t>(rules.size()));
  for (const Rule& rule : rules) {
    out.string(rule.path);
    out.u32(static_cast<uint32_t>(rule.action));
    out.u32(rule.track);
  }
}

// At most `room` of them, which become fewer. False: `problem` says what is wrong.
bool get_rules(Reader& in, size_t& room, std::vector<Rule>& rules, std::string& problem) {
  const uint32_t count = in.u32();
  if (count > room) {
    problem = "too many rules";
    return false;
  }
  room -= count;
  rules.reserve(count);
  for (uint32_t i = 0; in.ok() && i < count; ++i) {
    Rule rule;
    rule.path = in.string(kMaxPath);
    // What is out of range must not become an action by being cut.
    rule.action = static_cast<Action>(std::min<uint32_t>(in.u32(), UINT8_MAX));
    rule.track = in.u32() != 0;
    if (!is_acceptable(rule)) {
      problem = fmt::format("bad rule '{}'", rule.path);
      return false;
    }
    rules.push_back(std::move(rule));
  }
  return true;
}

bool get_roots(Reader& in, size_t room, std::vector<std::string>& roots, std::string& problem) {
  const uint32_t count = in.u32();
  if (count > room) {
    problem = "too many rules";
    return false;
  }
  for (uint32_t i = 0; in.ok() && i < count; ++i) {
    roots.emplace_back(in.string(kMaxPath));
    if (!is_acceptable({roots.back(), Action::kDeny, false}) ||
        roots.back().find_first_of("*?") != std::string::npos) {
      problem = fmt::format("bad root of rules '{}'", roots.back());
      return false;
    }
  }
  return true;
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
  put_rules(out, config.rules);
  put_rules(out, config.repeated.rules);
  out.u32(static_cast<uint32_t>(config.repeated.roots.size()));
  for (const std::string& root : config.repeated.roots) out.string(root);
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
  size_t room = RuleSet::kMaxRules;
  if (!get_rules(in, room, config.rules, problem) ||
      !get_rules(in, room, config.repeated.rules, problem) ||
      !get_roots(in, room, config.repeated.roots, problem))
    return false;
  if (!in.done()) problem = "cut off, or too long";
  return in.done();
}

}  // namespace uks::gofer
