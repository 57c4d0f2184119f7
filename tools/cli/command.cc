// Dispatch of the command line.
#include "tools/cli/command.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <vector>

#include "tools/cli/args.h"
#include "tools/cli/exec_command.h"
#include "tools/cli/notice.h"

namespace uks::cli {

int cli_main(int argc, char** argv) {
  try {
    // The keeper does as its caller says: with more rights than the caller's own it would be a
    // hole.
    if (::getauxval(AT_SECURE) != 0) {
      print_notice("refusing to run set-id or with file capabilities");
      return kExitFailure;
    }
    ParsedArgs parsed =
        parse_args(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
    if (const auto* error = std::get_if<UsageError>(&parsed)) {
      print_notice(error->message);
      return kExitFailure;
    }
    if (const auto* print = std::get_if<PrintText>(&parsed)) {
      const ssize_t n = ::write(STDOUT_FILENO, print->text.data(), print->text.size());
      return n == static_cast<ssize_t>(print->text.size()) ? 0 : kExitFailure;
    }
    return exec_command(std::move(std::get<ExecOptions>(parsed)));
  } catch (const std::exception& e) {
    print_notice(std::string("internal: ") + e.what());
    return kExitFailure;
  }
}

}  // namespace uks::cli
