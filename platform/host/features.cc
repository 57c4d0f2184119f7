// Parses UKS_FEATURES. The mask is set once, while the process has one thread.
#include "platform/host/features.h"

#include <sys/auxv.h>

#include <algorithm>

namespace uks {
namespace {

constexpr uint64_t kHwcap2Fsgsbase = 2;  // HWCAP2_FSGSBASE in arch/x86/include/uapi/asm/hwcap2.h
uint32_t masked_features;

}  // namespace

std::optional<std::string_view> mask_features(std::string_view list) {
  uint32_t mask = 0;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    if (entry.empty()) continue;
    const auto name = std::find(kFeatureNames.begin(), kFeatureNames.end(), entry.substr(1));
    if (entry[0] != '-' || name == kFeatureNames.end()) return entry;
    mask |= 1u << (name - kFeatureNames.begin());
  }
  masked_features = mask;
  return std::nullopt;
}

bool is_masked(Feature feature) { return masked_features & 1u << static_cast<uint32_t>(feature); }

uint64_t usable_hwcap2() {
  return getauxval(AT_HWCAP2) & ~(is_masked(Feature::kFsgsbase) ? kHwcap2Fsgsbase : 0);
}

bool has_fsgsbase() { return usable_hwcap2() & kHwcap2Fsgsbase; }

}  // namespace uks
