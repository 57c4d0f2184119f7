// Completion scripts for bash, zsh and fish.
#include <fmt/format.h>

#include <ranges>
#include <vector>

#include "tools/cli/help_text.h"

namespace uks::cli {
namespace {

// `text` in single quotes, for all three shells ('' and \' differ: fish knows \', the others '\'').
std::string quote(std::string_view text, bool fish) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += fish ? "\\'" : "'\\''";
    } else if (c == '\\' && fish) {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// The first sentence, without its full stop.
std::string_view first_sentence(std::string_view text) {
  const size_t stop = text.find(". ");
  if (stop != std::string_view::npos) return text.substr(0, stop);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string spellings(const Flag& flag) {
  return flag.letter ? fmt::format("{} -{}", flag.name, flag.letter) : std::string(flag.name);
}

std::string flag_words(const Command& command) {
  std::string out;
  for (const Flag& flag : command.flags) out += (out.empty() ? "" : " ") + spellings(flag);
  return out;
}

std::string subcommand_words() {
  std::string out;
  for (const Command& command : subcommands())
    out += (out.empty() ? "" : " ") + std::string(command.name);
  return out;
}

// ---- bash

std::string bash_value(const Flag& flag) {
  switch (flag.kind) {
    case ValueKind::kPath:
      return "files -f";
    case ValueKind::kDirectory:
      return "files -d";
    case ValueKind::kChoice:
      return fmt::format("words {}", quote(flag.choices, false));
    case ValueKind::kVariable:
      return "words \"$(compgen -e)\"";
    case ValueKind::kUser:
      return "words \"$UID\"";
    case ValueKind::kText:
    case ValueKind::kNone:
      break;
  }
  return "words ''";
}

std::string bash_script() {
  std::string out =
      "# bash completion for uks, made by `uks completion bash`\n"
      "_uks_words() {\n"
      "  mapfile -t COMPREPLY < <(compgen -P \"$prefix\" -W \"$1\" -- \"$cur\")\n"
      "}\n"
      "_uks_files() {\n"
      "  compopt -o filenames 2>/dev/null\n"
      "  mapfile -t COMPREPLY < <(compgen -P \"$prefix\" \"$1\" -- \"$cur\")\n"
      "}\n"
      "# _uks_value SUBCOMMAND FLAG: completes the flag's value.\n"
      "_uks_value() {\n"
      "  case \"$1 $2\" in\n";
  const auto add_values = [&](const Command& command) {
    for (const Flag& flag : command.flags) {
      if (!flag.value.empty())
        out += fmt::format("    '{} {}') _uks_{} ;;\n", command.name, flag.name, bash_value(flag));
    }
  };
  add_values(main_command());
  for (const Command& command : subcommands()) add_values(command);
  out +=
      "  esac\n"
      "}\n"
      "# _uks_takes SUBCOMMAND FLAG: true if the next word is the flag's value.\n"
      "_uks_takes() {\n"
      "  case \"$1 $2\" in\n";
  std::string patterns;
  const auto add_takers = [&](const Command& command) {
    for (const Flag& flag : command.flags) {
      if (flag.value.empty() || flag.value_optional) continue;
      patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : " | \\\n      ", command.name,
                              flag.name);
    }
  };
  add_takers(main_command());
  for (const Command& command : subcommands()) add_takers(command);
  out += "    " + patterns +
         ") return 0 ;;\n"
         "  esac\n"
         "  return 1\n"
         "}\n"
         "_uks() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} command= want= last= prefix= i word\n"
         "  COMPREPLY=()\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    word=${COMP_WORDS[i]}\n"
         "    if [[ $word == = ]]; then\n"
         "      want=$last  # '=' breaks words: --flag=value is three of them\n"
         "    elif [[ $want ]]; then\n"
         "      want=\n"
         "    elif [[ $word == -- ]]; then\n"
         "      if declare -F _command_offset >/dev/null; then\n"
         "        _command_offset $((i + 1))\n"
         "      elif ((COMP_CWORD == i + 1)); then\n"
         "        mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
         "      else\n"
         "        _uks_files -f\n"
         "      fi\n"
         "      return\n"
         "    elif [[ $word == -* ]]; then\n"
         "      last=$word\n"
         "      if _uks_takes \"$command\" \"$word\"; then want=$word; fi\n"
         "    elif [[ ! $command ]]; then\n"
         "      command=$word\n"
         "    fi\n"
         "  done\n"
         "  if [[ $cur == = ]]; then\n"
         "    want=$last cur=\n"
         "  elif [[ ! $want && $cur == --*=* ]]; then\n"
         "    want=${cur%%=*} prefix=${cur%%=*}= cur=${cur#*=}\n"
         "  fi\n"
         "  if [[ $want ]]; then\n"
         "    _uks_value \"$command\" \"$want\"\n"
         "    return\n"
         "  fi\n"
         "  case $command in\n";
  const auto add_command = [&](const Command& command, std::string_view words) {
    out += fmt::format(
        "    {})\n"
        "      if [[ $cur == -* ]]; then _uks_words '{}'; else _uks_words '{}'; fi ;;\n",
        command.name.empty() ? "''" : command.name, flag_words(command), words);
  };
  add_command(main_command(), subcommand_words());
  for (const Command& command : subcommands())
    add_command(command, command.name == "exec" ? "--" : command.words);
  return out +
         "  esac\n"
         "}\n"
         "complete -F _uks uks\n";
}

// ---- zsh

// In an option's [description] brackets, and in what follows colons.
std::string zsh_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const Flag& flag) {
  switch (flag.kind) {
    case ValueKind::kPath:
      return "_files";
    case ValueKind::kDirectory:
      return "_directories";
    case ValueKind::kChoice:
      return fmt::format("({})", flag.choices);
    case ValueKind::kVariable:
      return "_parameters -g \"*export*\"";
    default:
      return " ";
  }
}

void add_zsh_flags(std::string& out, const Command& command, const std::string& indent) {
  for (const Flag& flag : command.flags) {
    std::string spec = fmt::format("[{}]", zsh_escape(first_sentence(flag.help)));
    if (!flag.value.empty()) {
      spec += fmt::format("{}{}:{}", flag.value_optional ? "::" : ":", zsh_escape(flag.value),
                          zsh_action(flag));
    }
    // `--flag=` takes the value in the same word or the next; `--flag=-` in the same one only.
    const std::string_view equals = flag.value.empty() ? "" : flag.value_optional ? "=-" : "=";
    if (flag.letter) {
      out += fmt::format("{0}'(-{1} {2})'{{-{1},{2}{3}}}{4} \\\n", indent, flag.letter, flag.name,
                         equals, quote(spec, false));
    } else {
      out +=
          indent +
          quote(fmt::format("{}{}{}{}", flag.repeats ? "*" : "", flag.name, equals, spec), false) +
          " \\\n";
    }
  }
}

std::string zsh_script() {
  std::string out =
      "#compdef uks\n"
      "# zsh completion for uks, made by `uks completion zsh`\n"
      "_uks() {\n"
      "  local context state state_descr line curcontext=$curcontext\n"
      "  typeset -A opt_args\n"
      "  local -a subcommands=(\n";
  for (const Command& command : subcommands()) {
    out += "    " + quote(fmt::format("{}:{}", command.name, zsh_escape(command.summary)), false) +
           "\n";
  }
  out += "  )\n  _arguments -C -S \\\n";
  add_zsh_flags(out, main_command(), "    ");
  out +=
      "    '1:subcommand:{_describe subcommand subcommands}' \\\n"
      "    '*::argument:->arguments'\n"
      "  [[ $state == arguments ]] || return\n"
      "  case $words[1] in\n";
  for (const Command& command : subcommands()) {
    out += fmt::format("    {})\n      _arguments -S \\\n", command.name);
    add_zsh_flags(out, command, "        ");
    if (command.name == "exec") {
      out += "        '*::command:_normal' ;;\n";
    } else if (!command.words.empty()) {
      out += fmt::format("        '1:argument:({})' ;;\n", command.words);
    } else {
      out += "        && return ;;\n";
    }
  }
  return out +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _uks ]]; then _uks \"$@\"; else compdef _uks uks; fi\n";
}

// ---- fish

std::string fish_value(const Flag& flag) {
  if (flag.value.empty()) return "";
  // An optional value is part of the flag's word: fish must not take the next one for it.
  if (flag.value_optional) return "";
  switch (flag.kind) {
    case ValueKind::kPath:
      return " -r -F";
    case ValueKind::kDirectory:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::kChoice:
      return fmt::format(" -x -a {}", quote(flag.choices, true));
    case ValueKind::kVariable:
      return " -x -a '(set --names --export)'";
    default:
      return " -x";
  }
}

void add_fish_flags(std::string& out, const Command& command) {
  const std::string when =
      command.name.empty()
          ? std::string("__fish_use_subcommand")
          : fmt::format("__fish_seen_subcommand_from {}; and not __uks_after_dashes", command.name);
  for (const Flag& flag : command.flags) {
    out += fmt::format("complete -c uks -n {}", quote(when, true));
    if (flag.letter) out += fmt::format(" -s {}", flag.letter);
    out += fmt::format(" -l {}{} -d {}\n", flag.name.substr(2), fish_value(flag),
                       quote(first_sentence(flag.help), true));
  }
}

std::string fish_script() {
  std::string out =
      "# fish completion for uks, made by `uks completion fish`\n"
      "function __uks_after_dashes\n"
      "    contains -- -- (commandline -opc)\n"
      "end\n"
      "complete -c uks -f\n";
  for (const Command& command : subcommands()) {
    out += fmt::format("complete -c uks -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       quote(command.summary, true));
    if (!command.words.empty()) {
      out += fmt::format("complete -c uks -n '__fish_seen_subcommand_from {}' -a {}\n",
                         command.name, quote(command.words, true));
    }
  }
  add_fish_flags(out, main_command());
  for (const Command& command : subcommands()) add_fish_flags(out, command);
  return out + "complete -c uks -n __uks_after_dashes -F -a '(__fish_complete_command)'\n";
}

}  // namespace

std::optional<std::string> completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  if (shell == "fish") return fish_script();
  return std::nullopt;
}

}  // namespace uks::cli
