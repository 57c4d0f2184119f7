// Prints the view.
#include "tools/cli/explain.h"

#include <fmt/format.h>

#include <map>

#include "tools/cli/policy_data.h"

namespace uks::cli {
namespace {

const char* kind_name(const ViewMount& mount) {
  switch (mount.kind) {
    case MountKind::kOverlay:
      return "overlay";
    case MountKind::kGofer:
      return mount.read_only ? "ro" : "rw";
    case MountKind::kTmpfs:
      return "tmpfs";
    case MountKind::kProc:
      return "proc";
    case MountKind::kDev:
      return "dev";
    case MountKind::kSys:
      return "sys";
  }
  return "?";
}

const char* verdict_name(EnvVerdict verdict) {
  switch (verdict) {
    case EnvVerdict::kKept:
      return "kept";
    case EnvVerdict::kSet:
      return "set";
    case EnvVerdict::kUnlisted:
      return "withheld";
    case EnvVerdict::kWithheldName:
      return "withheld";
    case EnvVerdict::kWithheldValue:
      return "withheld";
    case EnvVerdict::kCleaned:
      return "withheld";
  }
  return "?";
}

std::string verdict_reason(const EnvDecision& d) {
  switch (d.verdict) {
    case EnvVerdict::kUnlisted:
      return "not on the allow-list";
    case EnvVerdict::kWithheldName:
      return "the name looks like a credential: " + d.rule;
    case EnvVerdict::kWithheldValue:
      return "the value looks like a credential: " + d.rule;
    case EnvVerdict::kKept:
      return d.rule.starts_with("--") ? d.rule : "allow-list: " + d.rule;
    case EnvVerdict::kSet:
    case EnvVerdict::kCleaned:
      return d.rule;
  }
  return {};
}

// As many names a line as fit.
void add_list(std::string& out, policy::List list) {
  size_t column = 0;
  for (const std::string_view name : list) {
    if (column + 1 + name.size() > 98) column = 0;
    if (column == 0 && !out.ends_with('\n')) out += '\n';
    out += column == 0 ? "  " : " ";
    out += name;
    column += name.size() + (column == 0 ? 2 : 1);
  }
  out += '\n';
}

}  // namespace

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

std::string escape_controls(const std::string& text) {
  // The C1 controls, which some terminals obey, are two bytes in UTF-8; outside of UTF-8 any high
  // byte may be one.
  const bool utf8 = is_utf8(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8)) {
      out += fmt::format("\\x{:02x}", c);
    } else if (c == 0xc2 && next < 0xa0) {
      out += fmt::format("\\x{:02x}\\x{:02x}", c, next);
      ++i;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out;
}

std::string explain(const View& view, const Environment& environment, const ExecOptions& options) {
  std::string out;
  out += fmt::format("Identity: uid {}, gid {}{}\n", view.identity.uid, view.identity.gid,
                     view.identity.virtual_root ? " (a root only inside)" : "");
  out += fmt::format("Host name: {}\n", options.hostname);
  out += fmt::format("Starts in: {}\n", escape_controls(view.workdir));
  out += fmt::format("Workspace: {}\n", view.workspace_passes
                                            ? "changes in the current directory reach the host"
                                            : "nothing reaches the host by default");
  out += "Network: the sandbox's own loopback only\n";
  out += "Lists: tools/data/policy.json, as it was when this uks was built\n";
  for (const std::string& notice : view.notices) out += "Note: " + escape_controls(notice) + "\n";

  out += "\nMounts (later ones cover earlier ones):\n";
  for (const ViewMount& mount : view.config.mounts) {
    const auto reason = view.mount_reasons.find(mount.target);
    std::string source;
    if (mount.kind == MountKind::kGofer && view.trees[mount.tree].root != mount.target) {
      source = " from " + escape_controls(view.trees[mount.tree].root);
    }
    out +=
        fmt::format("  {:<8} {}{}  ({})\n", kind_name(mount), escape_controls(mount.target), source,
                    reason == view.mount_reasons.end() ? "" : escape_controls(reason->second));
  }
  out += "\nGenerated files:\n";
  for (const ViewFile& file : view.config.files) out += "  " + escape_controls(file.path) + "\n";

  out += "\nHost files (the longest path wins; absent: not there, deny: permission denied):\n";
  std::map<std::string, size_t> others;  // by reason: too many to name
  for (const GoferRule& rule : view.rules) {
    if (rule.reason.starts_with(kOthersSecret)) {
      ++others[rule.reason];
      continue;
    }
    out += fmt::format("  {:<8} {}  ({})\n", action_name(rule.action), escape_controls(rule.path),
                       escape_controls(rule.reason));
  }
  for (const std::string& home : view.other_homes)
    others[std::string(kOthersSecret) + home] =
        policy::home_secrets().size() + policy::big_secrets().size();
  for (const auto& [reason, count] : others) {
    out += fmt::format("  {:<8} {} paths  ({})\n", action_name(RuleAction::kDeny), count,
                       escape_controls(reason));
  }
  for (const auto& [heading, list] : {std::pair("Home allow-list", policy::home_allow()),
                                      {"Secrets list", policy::home_secrets()},
                                      {"Secrets list, large", policy::big_secrets()}}) {
    out += fmt::format("\n{} (below $HOME):\n", heading);
    add_list(out, list);
  }
  out += "\nEnvironment:\n";
  for (const EnvDecision& d : environment.decisions) {
    out += fmt::format("  {:<8} {}  ({})\n", verdict_name(d.verdict), escape_controls(d.name),
                       escape_controls(verdict_reason(d)));
  }
  return out;
}

}  // namespace uks::cli
