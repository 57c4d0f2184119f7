// What a git configuration file makes git run (git-config(1)).
#pragma once
#include <set>
#include <string>
#include <string_view>

namespace uks::gofer {

// The entries of `text` whose value is a command, or leads to more configuration or to hooks, as
// "section.subsection.key=value" with section and key in lower case. Lenient where git is strict: what
// git would refuse to read may be listed, never the other way round.
std::set<std::string> commands_in_git_config(std::string_view text);

}  // namespace uks::gofer
