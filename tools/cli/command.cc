// Dispatch of the command line.
#include "tools/cli/command.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "platform/host/features.h"
#include "tools/cli/args.h"
#include "tools/cli/doctor.h"
#include "tools/cli/exec_command.h"
#include "tools/cli/notice.h"
#include "tools/cli/ps.h"

namespace uks::cli {
namespace {

// Each as UKS_FEATURES takes it.
std::string feature_list() {
  std::string text;
  for (const std::string_view name : kFeatureNames)
    text += (text.empty() ? "-" : ", -") + std::string(name);
  return text;
}

}  // namespace

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
      return print_all(print->text) ? 0 : kExitFailure;
    }
    // Before anything is tried: roles read the same variable, and trust that it was looked at here.
    if (const char* list = std::getenv("UKS_FEATURES")) {
      if (const auto bad = mask_features(list)) {
        print_notice("UKS_FEATURES: " + std::string(*bad) +
                     " is no feature that can be switched off (" + feature_list() + ")");
        return kExitFailure;
      }
    }
    if (const auto* doctor = std::get_if<DoctorOptions>(&parsed)) return doctor_command(*doctor);
    if (const auto* ps = std::get_if<PsOptions>(&parsed)) return ps_command(*ps);
    return exec_command(std::move(std::get<ExecOptions>(parsed)));
  } catch (const std::exception& e) {
    print_notice(std::string("internal: ") + e.what());
    return kExitFailure;
  }
}

}  // namespace uks::cli
