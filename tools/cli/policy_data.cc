// The embedded policy lists.
#include "tools/cli/policy_data.h"

namespace uks::cli::policy {
namespace {
#include "policy_data.inc"
}  // namespace

List env_allow() { return kEnvAllow; }
List env_withhold() { return kEnvWithhold; }
List env_never_credentials() { return kEnvNeverCredentials; }
List home_allow() { return kHomeAllow; }
List home_secrets() { return kHomeSecrets; }
List big_secrets() { return kBigSecrets; }
List system_secrets() { return kSystemSecrets; }
List workspace_never() { return kWorkspaceNever; }
List workspace_never_below() { return kWorkspaceNeverBelow; }
List show_if_present() { return kShowIfPresent; }

}  // namespace uks::cli::policy
