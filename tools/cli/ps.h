// `uks ps`: the list of running sandboxes.
#pragma once
#include <string>
#include <vector>

#include "tools/cli/args.h"
#include "tools/cli/sandbox_list.h"

namespace uks::cli {

std::string sandboxes_text(const std::vector<RunningSandbox>& sandboxes, bool processes);
std::string sandboxes_json(const std::vector<RunningSandbox>& sandboxes, bool processes);

int ps_command(const PsOptions& options);

}  // namespace uks::cli
