// `uks exec`: from the options to the running sandbox.
#pragma once
#include "tools/cli/args.h"

namespace uks::cli {

int exec_command(ExecOptions options);

}  // namespace uks::cli
