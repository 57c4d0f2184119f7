// The files of /sys.
#include "sentry/fs/sys/sys.h"

#include <fmt/format.h>
#include <linux/magic.h>

#include "sentry/fs/pseudo/pseudo.h"
#include "sentry/task/kernel.h"

namespace uks {
namespace {

// A list as /sys/devices/system/cpu/online has it: "0" or "0-3".
std::string cpu_list(unsigned count) {
  return count > 1 ? "0-" + std::to_string(count - 1) + "\n" : "0\n";
}

// A mask as in .../topology/core_cpus: words of 32 bits, the highest first.
std::string cpu_mask(unsigned first, unsigned count, unsigned total) {
  std::string out;
  for (unsigned word = (total + 31) / 32; word-- > 0;) {
    uint32_t bits = 0;
    for (unsigned cpu = first; cpu < first + count; cpu++) {
      if (cpu / 32 == word) bits |= 1u << (cpu % 32);
    }
    out += out.empty() ? fmt::format("{:x}", bits) : fmt::format(",{:08x}", bits);
  }
  return out + "\n";
}

std::string host_text(const ViewConfig& config, const char* path, const char* otherwise) {
  const auto it = config.host_texts.find(path);
  return it != config.host_texts.end() && !it->second.empty() ? it->second : otherwise;
}

void add_cpus(PseudoDir& system, unsigned count) {
  PseudoDir& cpus = system.dir("cpu");
  for (const char* name : {"online", "possible", "present"}) cpus.add_fixed(name, cpu_list(count));
  cpus.add_fixed("offline", "\n");
  cpus.add_fixed("isolated", "\n");
  cpus.add_fixed("kernel_max", "8191\n");
  for (unsigned i = 0; i < count; i++) {
    PseudoDir& cpu = cpus.dir("cpu" + std::to_string(i));
    if (i > 0) cpu.add_fixed("online", "1\n");
    PseudoDir& topology = cpu.dir("topology");
    topology.add_fixed("physical_package_id", "0\n");
    topology.add_fixed("core_id", std::to_string(i) + "\n");
    topology.add_fixed("thread_siblings_list", std::to_string(i) + "\n");
    topology.add_fixed("core_cpus_list", std::to_string(i) + "\n");
    for (const char* name : {"thread_siblings", "core_cpus"})
      topology.add_fixed(name, cpu_mask(i, 1, count));
    for (const char* name : {"core_siblings", "package_cpus"})
      topology.add_fixed(name, cpu_mask(0, count, count));
    topology.add_fixed("core_siblings_list", cpu_list(count));
    topology.add_fixed("package_cpus_list", cpu_list(count));
  }
  PseudoDir& nodes = system.dir("node");
  nodes.add_fixed("online", "0\n");
  nodes.add_fixed("possible", "0\n");
  nodes.dir("node0").add_fixed("cpulist", cpu_list(count));
  nodes.dir("node0").add_fixed("cpumap", cpu_mask(0, count, count));
}

}  // namespace

Ref<Inode> make_sys_root(Kernel& kernel, const ViewConfig& config) {
  auto fs = make_ref<PseudoFs>("sysfs", SYSFS_MAGIC);
  auto root = make_ref<PseudoDir>(*fs, 1);
  for (const char* name :
       {"block", "bus", "class/net", "class/block", "class/tty", "dev/block", "dev/char",
        "devices/virtual", "firmware", "fs/cgroup", "module", "power"}) {
    root->dir(name);
  }
  add_cpus(root->dir("devices/system"), std::max(1u, kernel.cpu_count));
  PseudoDir& huge = root->dir("kernel/mm/transparent_hugepage");
  huge.add_fixed("enabled", host_text(config, "/sys/kernel/mm/transparent_hugepage/enabled",
                                      "always [madvise] never\n"));
  huge.add_fixed("hpage_pmd_size", "2097152\n");
  root->dir("kernel/mm/hugepages");
  return root;
}

}  // namespace uks
