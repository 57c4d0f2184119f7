// Help in all its forms, made from flag_table.h.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tools/cli/flag_table.h"

namespace uks::cli {

// `uks --help` for main_command(), `uks NAME --help` for the others. Lines of at most 80 columns.
std::string help_text(const Command& command);

// uks(1), roff source with the man macros (man(7)).
std::string man_page();

// The completion script for "bash", "zsh" or "fish"; nothing for another shell.
std::optional<std::string> completion_script(std::string_view shell);

}  // namespace uks::cli
