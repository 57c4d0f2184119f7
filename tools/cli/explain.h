// The text of `--explain`: the effective view, and why each part of it is so.
#pragma once
#include <string>
#include <string_view>

#include "tools/cli/environment.h"
#include "tools/cli/view_policy.h"

namespace uks::cli {

std::string explain(const View& view, const Environment& environment, const ExecOptions& options);

// `text` with control characters as C escapes, so that a name cannot move the cursor or fake a
// line.
std::string escape_controls(const std::string& text);

// Well-formed, without overlong forms and surrogates (RFC 3629).
bool is_utf8(std::string_view text);

}  // namespace uks::cli
