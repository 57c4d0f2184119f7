// The policy lists of tools/data/policy.json, as they were when this binary was built.
#pragma once
#include <span>
#include <string_view>

namespace uks::cli::policy {

using List = std::span<const std::string_view>;

List env_allow();              // globs of names that pass
List env_withhold();           // globs, any case, of names that look like credentials
List env_never_credentials();  // names that the globs above catch by accident
List home_allow();             // paths below $HOME that show
List home_secrets();           // paths below a home that are denied wherever that home is open
List big_secrets();            // likewise, but with too many files to know each by inode
List system_secrets();         // absolute paths that are denied
List workspace_never();        // directories that are no workspace themselves
List workspace_never_below();  // directories below which nothing is a workspace
List show_if_present();        // absolute paths that show through the sandbox's own directories

}  // namespace uks::cli::policy
