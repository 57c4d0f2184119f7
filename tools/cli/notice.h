// The lines that uks itself writes to stderr.
#pragma once
#include <string>

namespace uks::cli {

// Writes `uks: TEXT` as one line with one write(2); control characters in the text are escaped.
void print_notice(const std::string& text);

}  // namespace uks::cli
