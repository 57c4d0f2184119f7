// The texts of `--help`.
#include "tools/cli/help_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace uks::cli {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kIndent = 25;  // where descriptions start

// Appends `text` in lines that start at column `indent`; the first one at `column`, where we are.
void wrap(std::string& out, std::string_view text, size_t indent, size_t column) {
  bool first = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    const bool paragraph = end < text.size() && text[end] == '\n';
    if (!first && column + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
    text.remove_prefix(std::min(end + 1, text.size()));
    if (paragraph && !text.empty()) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
      first = true;
    }
  }
  out += '\n';
}

std::string flag_usage(const Flag& flag) {
  std::string usage = flag.letter ? fmt::format("-{}, ", flag.letter) : std::string("    ");
  usage += flag.name;
  if (flag.value_optional) {
    usage += fmt::format("[={}]", flag.value);
  } else if (!flag.value.empty()) {
    usage += fmt::format(" {}", flag.value);
  }
  return usage;
}

void add_entry(std::string& out, std::string_view usage, std::string_view help) {
  out += "  ";
  out += usage;
  size_t column = 2 + usage.size();
  if (column + 1 > kIndent) {
    out += '\n';
    column = 0;
  }
  out.append(kIndent - column, ' ');
  wrap(out, help, kIndent, kIndent);
}

void add_flags(std::string& out, const Command& command) {
  std::vector<std::string_view> groups;
  for (const Flag& flag : command.flags) {
    if (std::ranges::find(groups, flag.group) == groups.end()) groups.push_back(flag.group);
  }
  for (const std::string_view group : groups) {
    out += fmt::format("\n{}:\n", group);
    for (const Flag& flag : command.flags) {
      if (flag.group != group) continue;
      std::string help(flag.help);
      if (flag.repeats) help += " May be repeated.";
      add_entry(out, flag_usage(flag), help);
    }
  }
}

}  // namespace

std::string help_text(const Command& command) {
  const bool is_main = command.name.empty();
  std::string out;
  for (size_t i = 0; i < command.synopses.size(); ++i) {
    out += fmt::format("{} uks {}\n", i == 0 ? "Usage:" : "      ", command.synopses[i]);
  }
  out += '\n';
  wrap(out, command.description, 0, 0);
  if (is_main) {
    out += "\nSubcommands (`uks SUBCOMMAND --help' lists the flags of each):\n";
    for (const Command& sub : subcommands()) add_entry(out, sub.name, sub.summary);
  }
  add_flags(out, command);
  if (is_main || command.name == "exec") {
    out += "\nExit code:\n";
    for (const ExitCode& code : exit_codes()) add_entry(out, code.code, code.meaning);
  }
  if (is_main) {
    out += "\nEnvironment:\n";
    for (const Variable& variable : variables()) add_entry(out, variable.name, variable.meaning);
  }
  const auto examples = is_main ? find_subcommand("exec")->examples : command.examples;
  if (!examples.empty()) out += "\nExamples:\n";
  for (const Example& example : examples) {
    out += fmt::format("  {}\n      ", example.line);
    wrap(out, example.meaning, 6, 6);
  }
  return out;
}

}  // namespace uks::cli
