// From wait statuses to uks's own exit code.
#pragma once

namespace uks::cli {

// The code itself, or 128 + n for signal n, as shells have it.
int exit_code_of(int wait_status);

}  // namespace uks::cli
