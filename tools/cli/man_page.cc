// The manual page. Only macros of man(7), so that groff and mandoc both set it without a warning.
#include <fmt/format.h>

#include "tools/cli/help_text.h"

namespace uks::cli {
namespace {

// Text as roff source: '-' as the ASCII hyphen that flags are typed with; no line of it is a
// request.
std::string escape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool line_start = i == 0 || text[i - 1] == '\n';
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '~') {
      out += "\\(ti";
    } else if (c == '^') {
      out += "\\(ha";
    } else {
      out += c;
    }
  }
  return out;
}

// Sentences each on a line of their own, as roff wants them; paragraphs apart.
std::string prose(std::string_view text) {
  std::string out;
  const std::string escaped = escape(text);
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] == '\n') {
      out += i + 1 < escaped.size() ? "\n.PP\n" : "";
    } else if (escaped[i] == ' ' && i > 1 && escaped[i - 1] == '.' && i + 1 < escaped.size() &&
               escaped[i - 2] != '.') {
      out += escaped[i + 1] == '.' ? "\n\\&" : "\n";
    } else {
      out += escaped[i];
    }
  }
  return out + "\n";
}

void add_flag(std::string& out, const Flag& flag) {
  out += ".TP\n";
  std::string name;
  if (flag.letter) name += fmt::format("\\fB\\-{}\\fR, ", flag.letter);
  name += fmt::format("\\fB{}\\fR", escape(flag.name));
  if (flag.value_optional) {
    name += fmt::format("[=\\fI{}\\fR]", escape(flag.value));
  } else if (!flag.value.empty()) {
    name += fmt::format(" \\fI{}\\fR", escape(flag.value));
  }
  out += name + "\n" + prose(flag.help);
  if (!flag.more.empty()) out += prose(flag.more);
  if (flag.repeats) out += "May be repeated.\n";
}

void add_flags(std::string& out, const Command& command) {
  for (const Flag& flag : command.flags) add_flag(out, flag);
}

}  // namespace

std::string man_page() {
  const Command& main = main_command();
  std::string out =
      ".\\\" Made by `uks man' from tools/cli/flag_table.cc.\n"
      ".TH UKS 1 \"\" \"uks " +
      std::string(kVersion) +
      "\" \"User Commands\"\n"
      ".SH NAME\n"
      "uks \\- " +
      escape(main.summary) + "\n.SH SYNOPSIS\n";
  bool first = true;
  for (const Command& command : subcommands()) {
    for (const std::string_view synopsis : command.synopses) {
      if (!first) out += ".br\n";
      out += "\\fBuks\\fR " + escape(synopsis) + "\n";
      first = false;
    }
  }
  out += ".SH DESCRIPTION\n" + prose(main.description);
  out += ".SH GLOBAL OPTIONS\nThey stand before the subcommand.\n";
  add_flags(out, main);
  out += ".SH SUBCOMMANDS\n";
  for (const Command& command : subcommands()) {
    out += ".SS \"uks " + escape(command.name) + "\"\n" + prose(command.description);
    add_flags(out, command);
  }
  out += ".SH EXIT STATUS\n";
  for (const ExitCode& code : exit_codes())
    out += fmt::format(".TP\n\\fB{}\\fR\n{}", escape(code.code), prose(code.meaning));
  out += ".SH ENVIRONMENT\n";
  for (const Variable& variable : variables())
    out += fmt::format(".TP\n\\fB{}\\fR\n{}", escape(variable.name), prose(variable.meaning));
  out += ".SH EXAMPLES\n";
  for (const Command& command : subcommands()) {
    for (const Example& example : command.examples)
      out += fmt::format(".TP\n\\fB{}\\fR\n{}", escape(example.line), prose(example.meaning));
  }
  out += ".SH SEE ALSO\n.BR bwrap (1),\n.BR strace (1),\n.BR seccomp (2),\n.BR landlock (7)\n";
  return out;
}

}  // namespace uks::cli
