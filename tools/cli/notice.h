// The lines that uks itself writes.
#pragma once
#include <string>

namespace uks::cli {

// Writes `uks: TEXT` as one line with one write(2); control characters in the text are escaped.
void print_notice(const std::string& text);

// Writes `text` to stdout as it is. False, after a notice, if that failed.
bool print_all(const std::string& text);

}  // namespace uks::cli
