// Help, manual page and completions: all flags are in all of them, and the parser knows each.
#include "tools/cli/help_text.h"

#include <gtest/gtest.h>

#include "tools/cli/args.h"

namespace uks::cli {
namespace {

std::vector<const Command*> all_commands() {
  std::vector<const Command*> commands = {&main_command()};
  for (const Command& command : subcommands()) commands.push_back(&command);
  return commands;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(HelpText, EveryFlagIsEverywhere) {
  const std::string man = man_page();
  for (const Command* command : all_commands()) {
    const std::string help = help_text(*command);
    for (const Flag& flag : command->flags) {
      EXPECT_TRUE(contains(help, flag.name)) << command->name << " " << flag.name;
      std::string in_roff;
      for (const char c : flag.name) in_roff += c == '-' ? "\\-" : std::string(1, c);
      EXPECT_TRUE(contains(man, "\\fB" + in_roff + "\\fR")) << flag.name;
      EXPECT_TRUE(contains(*completion_script("bash"), flag.name)) << flag.name;
      EXPECT_TRUE(contains(*completion_script("zsh"), flag.name)) << flag.name;
      EXPECT_TRUE(contains(*completion_script("fish"), "-l " + std::string(flag.name.substr(2))))
          << flag.name;
    }
  }
  EXPECT_FALSE(completion_script("csh"));
}

TEST(HelpText, LinesFit) {
  for (const Command* command : all_commands()) {
    const std::string help = help_text(*command);
    size_t start = 0;
    while (start < help.size()) {
      const size_t end = help.find('\n', start);
      ASSERT_NE(end, std::string::npos) << "no newline at the end";
      EXPECT_LE(end - start, 80u) << help.substr(start, end - start);
      start = end + 1;
    }
  }
}

TEST(HelpText, TablesAreComplete) {
  for (const Command* command : all_commands()) {
    EXPECT_FALSE(command->summary.empty());
    EXPECT_FALSE(command->synopses.empty());
    for (const Flag& flag : command->flags) {
      EXPECT_TRUE(flag.name.starts_with("--"));
      EXPECT_TRUE(flag.help.ends_with('.')) << flag.name;
      EXPECT_EQ(flag.value.empty(), flag.kind == ValueKind::kNone) << flag.name;
      EXPECT_EQ(flag.choices.empty(), flag.kind != ValueKind::kChoice) << flag.name;
    }
  }
}

TEST(HelpText, TheParserKnowsEveryFlag) {
  for (const Command* command : all_commands()) {
    for (const Flag& flag : command->flags) {
      std::vector<std::string> args;
      if (!command->name.empty()) args.emplace_back(command->name);
      std::string word(flag.name);
      if (!flag.value.empty()) {
        word += '=';
        word += flag.kind == ValueKind::kChoice ? flag.choices.substr(0, flag.choices.find(' '))
                : flag.name == "--env"          ? "A=1"
                                                : "1";
      }
      args.push_back(word);
      const ParsedArgs parsed = parse_args(args);
      if (const auto* error = std::get_if<UsageError>(&parsed)) {
        EXPECT_FALSE(contains(error->message, "flag")) << word << ": " << error->message;
      }
    }
  }
}

TEST(HelpText, ManPageIsWellFormed) {
  const std::string man = man_page();
  size_t start = 0;
  while (start < man.size()) {
    const size_t end = man.find('\n', start);
    ASSERT_NE(end, std::string::npos);
    const std::string line = man.substr(start, end - start);
    EXPECT_FALSE(line.empty());
    if (line.starts_with('.')) {
      EXPECT_TRUE(line.starts_with(".\\\"") || line.starts_with(".TH ") ||
                  line.starts_with(".SH ") || line.starts_with(".SS ") || line == ".TP" ||
                  line == ".PP" || line == ".br" || line.starts_with(".BR "))
          << line;
    }
    start = end + 1;
  }
  for (const char* section :
       {".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH EXIT STATUS", ".SH EXAMPLES"})
    EXPECT_TRUE(contains(man, section)) << section;
}

}  // namespace
}  // namespace uks::cli
