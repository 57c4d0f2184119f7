// Every flag of the command line, once: the parser, `--help`, the man page and the shell
// completions are made from these tables.
#pragma once
#include <span>
#include <string_view>

namespace uks::cli {

enum class ValueKind {
  kNone,  // a switch
  kText,  // nothing that a shell could complete
  kPath,  // a file or directory
  kDirectory,
  kChoice,    // one of Flag::choices
  kVariable,  // an environment variable's name
  kUser,      // a numeric user id
};

struct Flag {
  std::string_view name;   // "--ro"
  char letter;             // 'q' for -q; 0: none
  std::string_view value;  // how help names the value; empty for a switch
  ValueKind kind;
  bool value_optional;       // the value only comes as `--flag=VALUE`
  bool repeats;              // may be given more than once, each time for one more value
  std::string_view group;    // the heading it stands under
  std::string_view help;     // what it does; units and defaults included
  std::string_view more;     // what only the man page has room for
  std::string_view choices;  // separated by blanks
};

struct Example {
  std::string_view line;
  std::string_view meaning;
};

struct Command {
  std::string_view name;                       // "exec"; empty for uks itself
  std::span<const std::string_view> synopses;  // what follows `uks`
  std::string_view summary;                    // a phrase
  std::string_view description;                // sentences; paragraphs end with '\n'
  std::span<const Flag> flags;
  std::string_view words;  // what its plain arguments may be, separated by blanks
  std::span<const Example> examples;
};

struct ExitCode {
  std::string_view code;
  std::string_view meaning;
};

struct Variable {
  std::string_view name;
  std::string_view meaning;
};

const Command& main_command();  // the global flags
std::span<const Command> subcommands();
const Command* find_subcommand(std::string_view name);
std::span<const ExitCode> exit_codes();
std::span<const Variable> variables();  // of the environment, that uks itself obeys

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace uks::cli
