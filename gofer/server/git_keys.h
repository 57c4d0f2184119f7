// What an entry of a repository's configuration may make git do (git-config(1), git 2.51).
#pragma once
#include <string_view>

#include "gofer/server/git_config.h"

namespace uks::gofer {

enum class Effect {
  kHarmless,
  kRuns,        // runs a command or reads more configuration, or this list does not know
  kRepository,  // git uses the repository that the value names
  kWorkTree,    // the value is where the checked-out files are
};

Effect effect_of(const ConfigEntry& entry);

// How git reaches a repository.
enum class Address {
  kNetwork,
  kPath,
  kOther,  // by a helper program, or not at all
};
Address kind_of_address(std::string_view address);

}  // namespace uks::gofer
