// What guests are told of the host's machine.
#pragma once
#include <map>
#include <string>

namespace uks {

// The texts of /proc/cpuinfo, /proc/meminfo, /proc/version and /sys/devices/system/cpu/online, by
// path, 1 MiB at most of each; without those that cannot be read. Opens files: before Landlock and
// the filter.
std::map<std::string, std::string> read_host_texts();

}  // namespace uks
