// The host kernel's features that uks can do without, or that it must be able to name when they are
// missing; UKS_FEATURES switches them off one by one.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace uks {

enum class Feature : uint8_t {
  kWaitKillable,  // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19
  kSyncWake,      // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP, Linux 6.6
  kMseal,         // mseal(2), Linux 6.10
  kPidfdThread,   // PIDFD_THREAD, Linux 6.9
  kLandlock,      // Linux 5.13
  kNotify,        // seccomp user notifications
  kFsgsbase,      // rdfsbase and its kin in user mode, Linux 5.9
  kUserns,        // user namespaces for ordinary users
  kProcMem,       // /proc/PID/mem of children: Yama and outer filters may refuse it
};
inline constexpr size_t kFeatureCount = 9;
inline constexpr std::array<std::string_view, kFeatureCount> kFeatureNames = {
    "wait_killable", "sync_wake", "mseal",  "pidfd_thread", "landlock",
    "notify",        "fsgsbase",  "userns", "proc_mem"};

constexpr std::string_view name_of(Feature feature) {
  return kFeatureNames[static_cast<size_t>(feature)];
}

// Which features are switched off in this process: `-NAME` entries with commas between them (blanks
// around them are fine). Returns the first entry that is none; nothing is switched off then.
std::optional<std::string_view> mask_features(std::string_view list);

bool is_masked(Feature feature);

// AT_HWCAP2 (getauxval(3)) without what is masked.
uint64_t usable_hwcap2();
// Whether FS and GS bases can be set by instructions.
bool has_fsgsbase();

}  // namespace uks
