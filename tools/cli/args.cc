// Grammar: `uks [GLOBAL] exec [FLAGS] -- CMD…` and `uks exec [FLAGS] NAME [--] CMD…`. Where the
// flags end is found here, because everything after that point belongs to the command; CLI11 reads
// the flags.
#include "tools/cli/args.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <ranges>

namespace uks::cli {
namespace {

constexpr const char* kVersionText = "uks 0.1.0\n";

constexpr const char* kMainHelp =
    "uks: runs code that nobody has read yet, behind a kernel of its own\n"
    "\n"
    "Usage: uks [GLOBAL] exec [FLAGS] -- COMMAND [ARG...]\n"
    "       uks [GLOBAL] exec [FLAGS] NAME [--] COMMAND [ARG...]\n"
    "\n"
    "  exec               run a command in a new sandbox (or in the one called NAME)\n"
    "\n"
    "Global flags:\n"
    "  -h, --help         this text; `uks exec --help` lists the flags of exec\n"
    "      --version      the version\n"
    "      --log-level L  trace, debug, info, warning, error, critical or off\n"
    "      --log-file F   log lines go to F instead of stderr\n"
    "  -q, --quiet        no notices on stderr\n";

constexpr const char* kExecHelp =
    "Usage: uks exec [FLAGS] -- COMMAND [ARG...]\n"
    "\n"
    "Runs COMMAND in a new sandbox. It sees the host's files read-only; what it writes outside "
    "the\n"
    "current directory vanishes afterwards. Of the home directory it sees a short list "
    "(--explain).\n"
    "\n"
    "Files:\n"
    "  --ro PATH          show PATH as it is on the host, read-only\n"
    "  --rw PATH          show PATH, changes reach the host (`--rw .` where the current directory "
    "is\n"
    "                     not passed through by itself)\n"
    "  --hide PATH        refuse PATH (EACCES); the globs * ? ** are known\n"
    "  --tmpfs PATH       an empty directory of the sandbox's own at PATH\n"
    "  --workdir DIR      start in DIR\n"
    "Environment and identity:\n"
    "  --env K=V          set a variable\n"
    "  --pass-env K       pass the caller's variable K, whatever its name or value\n"
    "  --clean-env        pass none but those two name, and PATH, HOME, TERM and TMPDIR\n"
    "  --user UID[:GID]   run as this user; 0 is a root whose power ends at the sandbox\n"
    "  --hostname H       the host name inside (default: uks)\n"
    "Running:\n"
    "  --timeout T        end it after T (30, 1.5s, 2m, 1h): exit code 124\n"
    "  --platform P       auto, trap or ptrace\n"
    "  --strace[=FILE]    list the system calls on stderr or in FILE\n"
    "  --log-level L      trace, debug, info, warning, error, critical or off (default: warning)\n"
    "  --log-file F       log lines go to F instead of stderr\n"
    "  --summary          say how many files were discarded even if stderr is no terminal\n"
    "  -q, --quiet        no notices on stderr\n"
    "  --explain          print what the command would see, and why; run nothing\n"
    "  -h, --help         this text\n"
    "\n"
    "Exit code: the command's own; 128+n if signal n ended it; 124 timeout; 125 uks failed;\n"
    "126 not executable; 127 not found.\n";

constexpr std::array kLogLevels = {"trace", "debug", "info", "warning", "error", "critical", "off"};
constexpr std::array kPlatforms = {"auto", "trap", "ptrace"};

template <size_t N>
bool one_of(const std::array<const char*, N>& list, const std::string& value) {
  return std::ranges::any_of(list, [&](const char* s) { return value == s; });
}

struct Globals {
  bool help = false;
  bool version = false;
};

// One value a time, as often as wanted: a list option must not swallow the words after its value.
CLI::Option* add_list(CLI::App& app, const char* name, std::vector<std::string>& target) {
  return app.add_option(name, target)->allow_extra_args(false)->take_all();
}

void add_common(CLI::App& app, Globals& globals, ExecOptions& o) {
  app.set_help_flag();
  app.option_defaults()->take_last();
  app.add_flag("-h,--help", globals.help);
  app.add_option("--log-level", o.log_level);
  app.add_option("--log-file", o.log_file);
  app.add_flag("-q,--quiet", o.quiet);
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

std::optional<UsageError> parse_flags(CLI::App& app, std::vector<std::string> flags) {
  // CLI11 takes a value that looks like a flag for a flag; joined with `=` it is a value.
  std::vector<std::string> joined;
  for (size_t i = 0; i < flags.size(); ++i) {
    const bool is_long = flags[i].starts_with("--") && flags[i].find('=') == std::string::npos;
    const CLI::Option* option = is_long ? app.get_option_no_throw(flags[i]) : nullptr;
    if (option && option->get_expected_min() > 0) {
      if (i + 1 == flags.size()) return UsageError{flags[i] + " needs a value"};
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
        return UsageError{"unknown flag " + name + " (see `uks exec --help`)"};
    }
    return UsageError{e.what()};
  } catch (const CLI::ParseError& e) {
    return UsageError{e.what()};
  }
  return std::nullopt;
}

std::optional<UsageError> check_values(ExecOptions& o, const std::string& user,
                                       const std::string& timeout) {
  if (!one_of(kPlatforms, o.platform)) {
    return UsageError{"--platform: " + o.platform + " is none of auto, trap, ptrace"};
  }
  if (!one_of(kLogLevels, o.log_level)) {
    return UsageError{"--log-level: " + o.log_level +
                      " is none of trace, debug, info, warning, error, critical, off"};
  }
  if (!user.empty()) {
    o.user = parse_user(user);
    if (!o.user) return UsageError{"--user: " + user + " is not UID[:GID] in numbers"};
  }
  if (!timeout.empty()) {
    const auto ms = parse_duration_ms(timeout);
    if (!ms) return UsageError{"--timeout: " + timeout + " is no duration (30, 1.5s, 2m, 1h)"};
    o.timeout_ms = *ms;
  }
  for (const std::string& pair : o.env) {
    if (pair.find('=') == std::string::npos || pair[0] == '=') {
      return UsageError{"--env: " + pair + " is not K=V"};
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

ParsedArgs parse_exec(const std::vector<std::string>& args, size_t begin, ExecOptions o) {
  Globals globals;
  std::string user;
  std::string timeout;
  std::string strace = "";
  CLI::App app;
  add_common(app, globals, o);
  add_list(app, "--ro", o.ro);
  add_list(app, "--rw", o.rw);
  add_list(app, "--hide", o.hide);
  add_list(app, "--tmpfs", o.tmpfs);
  add_list(app, "--env", o.env);
  add_list(app, "--pass-env", o.pass_env);
  app.add_flag("--clean-env", o.clean_env);
  app.add_option("--workdir", o.workdir);
  app.add_option("--user", user);
  app.add_option("--hostname", o.hostname);
  app.add_option("--platform", o.platform);
  app.add_flag("--strace{-}", strace);
  app.add_option("--timeout", timeout);
  app.add_flag("--summary", o.summary);
  app.add_flag("--explain", o.explain);

  const size_t end = begin + count_flags(app, args, begin);
  if (auto error = parse_flags(app, {args.begin() + begin, args.begin() + end})) return *error;
  if (globals.help) return PrintText{kExecHelp};
  if (auto error = check_values(o, user, timeout)) return *error;
  if (!strace.empty()) {
    o.strace = true;
    if (strace != "-") o.strace_file = strace;
  }

  if (end < args.size() && args[end] != "--") {
    // No sandbox has a name yet, so no name can exist.
    return UsageError{"sandbox " + args[end] +
                      " does not exist (to run a command in a new one: uks exec -- " + args[end] +
                      ")"};
  }
  if (end < args.size()) o.command.assign(args.begin() + end + 1, args.end());
  if (o.command.empty() && !o.explain) {
    return UsageError{"nothing to run: use `uks exec -- COMMAND`"};
  }
  return o;
}

}  // namespace

ParsedArgs parse_args(const std::vector<std::string>& args) {
  Globals globals;
  ExecOptions o;
  CLI::App app;
  add_common(app, globals, o);
  app.add_flag("--version", globals.version);
  const size_t end = count_flags(app, args, 0);
  if (auto error = parse_flags(app, {args.begin(), args.begin() + end})) {
    if (error->message.starts_with("unknown flag")) {
      error->message = error->message.substr(0, error->message.find(" (")) + " (see `uks --help`)";
    }
    return *error;
  }
  if (globals.version) return PrintText{kVersionText};
  if (globals.help) return PrintText{kMainHelp};
  if (end == args.size())
    return UsageError{"no subcommand: use `uks exec -- COMMAND` or see `uks --help`"};
  if (args[end] != "exec") {
    const bool dashes = args[end] == "--" && end + 1 < args.size();
    return UsageError{"unknown subcommand " + args[end] + " (to run a command: uks exec -- " +
                      (dashes ? args[end + 1] : args[end]) + ")"};
  }
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
