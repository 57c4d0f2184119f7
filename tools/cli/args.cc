// Grammar: `uks [GLOBAL] exec [FLAGS] -- CMD…`. Where the flags end is found here, because
// everything after that point belongs to the command; CLI11 reads the flags.
#include "tools/cli/args.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <ranges>
#include <span>
#include <string_view>

#include "tools/cli/flag_table.h"
#include "tools/cli/help_text.h"

namespace uks::cli {
namespace {

using Strings = std::vector<std::string>;

struct Globals {
  bool help = false;
  bool version = false;
};

// Where the value of a flag goes.
using Target = std::variant<bool*, std::string*, std::optional<std::string>*, Strings*>;
using Targets = std::map<std::string_view, Target>;

void add_targets(Targets& targets, Globals& globals, ExecOptions& o) {
  targets["--help"] = &globals.help;
  targets["--version"] = &globals.version;
  targets["--log-level"] = &o.log_level;
  targets["--log-file"] = &o.log_file;
  targets["--quiet"] = &o.quiet;
}

// Whether one of the words may be this flag. Which `--` ends them is not known yet.
bool is_written(const Flag& flag, std::span<const std::string> words) {
  for (const std::string_view word : words) {
    if (word.starts_with(flag.name) &&
        (word.size() == flag.name.size() || word[flag.name.size()] == '='))
      return true;
    const bool letters = word.size() > 1 && word[0] == '-' && word[1] != '-';
    if (letters && flag.letter && word.contains(flag.letter)) return true;
  }
  return false;
}

// Gives CLI11 those flags of a table that `words` hold: to know all of them costs it half a
// millisecond of each start. Throws std::out_of_range for one without a target.
void add_flags(CLI::App& app, const Command& command, const Targets& targets,
               std::span<const std::string> words) {
  app.set_help_flag();
  app.option_defaults()->take_last();
  for (const Flag& flag : command.flags) {
    if (!is_written(flag, words)) continue;
    std::string name(flag.name);
    if (flag.letter) name = std::string("-") + flag.letter + "," + name;
    const Target target = targets.at(flag.name);
    if (const auto* on = std::get_if<bool*>(&target)) {
      app.add_flag(name, **on);
    } else if (const auto* list = std::get_if<Strings*>(&target)) {
      // One value a time, as often as wanted: it must not swallow the words after its value.
      app.add_option(name, **list)->allow_extra_args(false)->take_all();
    } else if (const auto* maybe = std::get_if<std::optional<std::string>*>(&target)) {
      app.add_option(name, **maybe);
    } else if (flag.value_optional) {
      app.add_flag(name + "{-}",
                   *std::get<std::string*>(target));  // `-` is what stands for no value
    } else {
      app.add_option(name, *std::get<std::string*>(target));
    }
  }
}

bool is_choice(const Command& command, std::string_view name, std::string_view value) {
  const auto flag = std::ranges::find(command.flags, name, &Flag::name);
  for (const auto word : std::views::split(flag->choices, ' ')) {
    if (std::string_view(word) == value) return true;
  }
  return false;
}

std::string choices_of(const Command& command, std::string_view name) {
  std::string text(std::ranges::find(command.flags, name, &Flag::name)->choices);
  for (size_t at = 0; (at = text.find(' ', at)) != std::string::npos; at += 2)
    text.replace(at, 1, ", ");
  return text;
}

// How many of `args` from `begin` on are flags and their values; stops at `--` and at the first
// other word.
size_t count_flags(const CLI::App& app, const std::vector<std::string>& args, size_t begin) {
  size_t i = begin;
  for (; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg.size() < 2 || arg[0] != '-' || arg == "--") break;
    if (arg.starts_with("--")) {
      if (arg.find('=') != std::string::npos) continue;
      const CLI::Option* option = app.get_option_no_throw(arg);
      if (option && option->get_expected_min() > 0) ++i;  // its value
    }
  }
  return std::min(i, args.size()) - begin;
}

std::optional<UsageError> parse_flags(CLI::App& app, const Command& command, Strings flags) {
  // CLI11 takes a value that looks like a flag for a flag; joined with `=` it is a value.
  std::vector<std::string> joined;
  for (size_t i = 0; i < flags.size(); ++i) {
    const bool is_long = flags[i].starts_with("--") && flags[i].find('=') == std::string::npos;
    const CLI::Option* option = is_long ? app.get_option_no_throw(flags[i]) : nullptr;
    if (option && option->get_expected_min() > 0) {
      if (i + 1 == flags.size() || flags[i + 1].empty())
        return UsageError{flags[i] + " needs a value"};
      joined.push_back(flags[i] + "=" + flags[i + 1]);
      ++i;
    } else if (flags[i].starts_with("--") && flags[i].ends_with('=') && !is_long) {
      return UsageError{flags[i].substr(0, flags[i].size() - 1) + " needs a value"};
    } else {
      joined.push_back(flags[i]);
    }
  }
  std::ranges::reverse(joined);  // what App::parse(vector) wants
  try {
    app.parse(joined);
  } catch (const CLI::ExtrasError& e) {
    for (const std::string& flag : joined | std::views::reverse) {
      const std::string name = flag.substr(0, flag.find('='));
      if (!app.get_option_no_throw(name))
        return UsageError{"unknown flag " + name + " (see `uks " + std::string(command.name) +
                          (command.name.empty() ? "--help`)" : " --help`)")};
    }
    return UsageError{e.what()};
  } catch (const CLI::ParseError& e) {
    return UsageError{e.what()};
  }
  return std::nullopt;
}

std::optional<UsageError> check_values(ExecOptions& o, const std::optional<std::string>& user,
                                       const std::optional<std::string>& timeout) {
  const Command& exec = *find_subcommand("exec");
  for (const auto& [name, value] :
       {std::pair("--platform", &o.platform), {"--log-level", &o.log_level}}) {
    if (!is_choice(exec, name, *value))
      return UsageError{std::string(name) + ": " + *value + " is none of " +
                        choices_of(exec, name)};
  }
  if (user) {
    o.user = parse_user(*user);
    if (!o.user) return UsageError{"--user: " + *user + " is not UID[:GID] in numbers"};
  }
  if (timeout) {
    const auto ms = parse_duration_ms(*timeout);
    if (!ms) return UsageError{"--timeout: " + *timeout + " is no duration (30, 1.5s, 2m, 1h)"};
    o.timeout_ms = *ms;
  }
  for (const std::string& pair : o.env) {
    if (pair.find('=') == std::string::npos || pair[0] == '=') {
      return UsageError{
          "--env: " + pair + " is not NAME=VALUE" +
          (pair.starts_with('=') ? "" : " (--pass-env " + pair + " passes the caller's)")};
    }
  }
  for (const std::string& name : o.pass_env) {
    if (name.find('=') != std::string::npos)
      return UsageError{"--pass-env: " + name + " is not a name"};
  }
  // The limit of sethostname(2), and what the name may hold by hostname(7).
  const bool fits = !o.hostname.empty() && o.hostname.size() <= 64;
  if (!fits || !std::ranges::all_of(o.hostname, [](unsigned char c) {
        return std::isalnum(c) || c == '-' || c == '.' || c == '_';
      })) {
    return UsageError{"--hostname: " + o.hostname + " is not a host name"};
  }
  return std::nullopt;
}

ParsedArgs parse_exec(const Strings& args, size_t begin, ExecOptions o) {
  const Command& command = *find_subcommand("exec");
  Globals globals;
  std::optional<std::string> user;
  std::optional<std::string> timeout;
  std::string strace;
  Targets targets = {{"--ro", &o.ro},
                     {"--rw", &o.rw},
                     {"--hide", &o.hide},
                     {"--tmpfs", &o.tmpfs},
                     {"--unprotect", &o.unprotect},
                     {"--env", &o.env},
                     {"--pass-env", &o.pass_env},
                     {"--clean-env", &o.clean_env},
                     {"--workdir", &o.workdir},
                     {"--user", &user},
                     {"--hostname", &o.hostname},
                     {"--platform", &o.platform},
                     {"--strace", &strace},
                     {"--timeout", &timeout},
                     {"--summary", &o.summary},
                     {"--explain", &o.explain}};
  add_targets(targets, globals, o);
  CLI::App app;
  add_flags(app, command, targets, std::span(args).subspan(begin));

  const size_t end = begin + count_flags(app, args, begin);
  if (auto error = parse_flags(app, command, {args.begin() + begin, args.begin() + end}))
    return *error;
  if (globals.help) return PrintText{help_text(command)};
  if (auto error = check_values(o, user, timeout)) return *error;
  if (!strace.empty()) {
    o.strace = true;
    if (strace != "-") o.strace_file = strace;
  }

  if (end < args.size() && args[end] != "--") {
    return UsageError{"unexpected " + args[end] +
                      " (the command comes after --: uks exec [FLAGS] -- COMMAND; the value of a "
                      "flag that can do without is written with =: --strace=FILE)"};
  }
  if (end < args.size()) o.command.assign(args.begin() + end + 1, args.end());
  if (o.command.empty() && !o.explain) {
    return UsageError{"nothing to run: use `uks exec -- COMMAND`"};
  }
  return o;
}

// The subcommands that take flags and, at most, one plain word.
ParsedArgs parse_other(const Command& command, const Strings& args, size_t begin) {
  Globals globals;
  DoctorOptions doctor;
  PsOptions ps;
  bool json = false;
  const Targets targets = {
      {"--help", &globals.help}, {"--json", &json}, {"--processes", &ps.processes}};
  CLI::App app;
  add_flags(app, command, targets, std::span(args).subspan(begin));
  const std::string name(command.name);
  const size_t end = begin + count_flags(app, args, begin);
  if (auto error = parse_flags(app, command, {args.begin() + begin, args.begin() + end}))
    return *error;
  if (globals.help) return PrintText{help_text(command)};
  const size_t words = args.size() - end;
  if (words > (command.words.empty() ? 0 : 1)) {
    return UsageError{name + ": " + args[end + (command.words.empty() ? 0 : 1)] +
                      " is one word too many (see `uks " + name + " --help`)"};
  }
  doctor.json = ps.json = json;
  if (name == "doctor") return doctor;
  if (name == "ps") return ps;
  if (name == "man") return PrintText{man_page()};
  if (name == "help") {
    if (words == 0) return PrintText{help_text(main_command())};
    const Command* about = find_subcommand(args[end]);
    if (!about) return UsageError{"help: there is no subcommand " + args[end]};
    return PrintText{help_text(*about)};
  }
  if (words == 0) return UsageError{name + ": for which shell? bash, zsh or fish"};
  auto script = completion_script(args[end]);
  if (!script) return UsageError{name + ": " + args[end] + " is none of bash, zsh, fish"};
  return PrintText{std::move(*script)};
}

}  // namespace

ParsedArgs parse_args(const Strings& args) {
  Globals globals;
  ExecOptions o;
  Targets targets;
  add_targets(targets, globals, o);
  CLI::App app;
  add_flags(app, main_command(), targets, args);
  const size_t end = count_flags(app, args, 0);
  if (auto error = parse_flags(app, main_command(), {args.begin(), args.begin() + end}))
    return *error;
  if (globals.version) return PrintText{"uks " + std::string(kVersion) + "\n"};
  if (globals.help) return PrintText{help_text(main_command())};
  if (end == args.size())
    return UsageError{"no subcommand: use `uks exec -- COMMAND` or see `uks --help`"};
  const Command* command = find_subcommand(args[end]);
  if (!command) {
    const bool dashes = args[end] == "--" && end + 1 < args.size();
    return UsageError{"unknown subcommand " + args[end] + " (to run a command: uks exec -- " +
                      (dashes ? args[end + 1] : args[end]) + ")"};
  }
  if (command->name != "exec") return parse_other(*command, args, end + 1);
  return parse_exec(args, end + 1, std::move(o));
}

std::optional<int64_t> parse_duration_ms(const std::string& text) {
  constexpr double kMaxSeconds = 10.0 * 366 * 24 * 3600;
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || rest == text.data()) return std::nullopt;
  const std::string_view suffix(rest, end);
  double unit = 1;
  if (suffix == "ms") {
    unit = 0.001;
  } else if (suffix == "m") {
    unit = 60;
  } else if (suffix == "h") {
    unit = 3600;
  } else if (suffix == "d") {
    unit = 24 * 3600;
  } else if (!suffix.empty() && suffix != "s") {
    return std::nullopt;
  }
  const double seconds = number * unit;
  if (!(seconds >= 0) || seconds > kMaxSeconds) return std::nullopt;
  return static_cast<int64_t>(std::ceil(seconds * 1000));
}

std::optional<UserSpec> parse_user(const std::string& text) {
  const auto id = [](std::string_view s) -> std::optional<uint32_t> {
    uint32_t value = 0;
    const auto [rest, error] = std::from_chars(s.data(), s.data() + s.size(), value);
    if (s.empty() || error != std::errc() || rest != s.data() + s.size() || value == UINT32_MAX) {
      return std::nullopt;
    }
    return value;
  };
  const size_t colon = text.find(':');
  const auto uid = id(std::string_view(text).substr(0, colon));
  if (!uid) return std::nullopt;
  if (colon == std::string::npos) return UserSpec{*uid, std::nullopt};
  const auto gid = id(std::string_view(text).substr(colon + 1));
  if (!gid) return std::nullopt;
  return UserSpec{*uid, *gid};
}

}  // namespace uks::cli
