// `uks` as the user calls it.
#pragma once

namespace uks::cli {

// The whole program but the hidden roles. Returns uks's exit code.
int cli_main(int argc, char** argv);

}  // namespace uks::cli
