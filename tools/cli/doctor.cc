// The report on the host.
#include "tools/cli/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "tools/cli/flag_table.h"
#include "tools/cli/notice.h"

namespace uks::cli {
namespace {

struct FeatureText {
  Feature feature;
  const char* adds;
};

constexpr FeatureText kFeatureTexts[] = {
    {Feature::kNotify,
     "seccomp user notifications: how platform trap hears of system calls; platform ptrace is "
     "slower"},
    {Feature::kWaitKillable,
     "a signal does not interrupt a call that is being served (Linux 5.19): platform trap needs "
     "it"},
    {Feature::kFsgsbase,
     "thread pointers are set without a system call (Linux 5.9); without, stubs may call "
     "arch_prctl"},
    {Feature::kSyncWake,
     "the kernel is woken on the core of the calling thread (Linux 6.6): calls take a third of the "
     "time"},
    {Feature::kMseal,
     "a guest cannot unmap or change the code that runs beside it (Linux 6.10); without, it can "
     "harm only "
     "itself by that"},
    {Feature::kPidfdThread,
     "descriptors of single threads (Linux 6.9); nothing depends on them yet"},
    {Feature::kLandlock,
     "no file, TCP port, abstract socket or signal is reachable from a sentry that was taken over, "
     "even "
     "if its filter failed (Linux 5.13, complete from 6.12)"},
    {Feature::kProcMem,
     "guest memory is read and written without the guest's help; by copy orders without, slower"},
    {Feature::kUserns,
     "System V IPC objects and host name are the sandbox's own also for the host kernel, for "
     "callers "
     "without root's rights"},
};

bool usable(const HostProbe& probe, Feature feature) {
  return probe.has[static_cast<size_t>(feature)] && !is_masked(feature);
}

std::string feature_detail(const HostProbe& probe, Feature feature) {
  switch (feature) {
    case Feature::kNotify:
      if (probe.seccomp_error == EBUSY) return "another seccomp listener is in place here";
      return probe.seccomp_error ? std::strerror(probe.seccomp_error) : "";
    case Feature::kLandlock:
      return probe.landlock_abi ? fmt::format("interface {}", probe.landlock_abi) : "";
    case Feature::kUserns:
      return probe.userns_reason;
    case Feature::kProcMem:
      return probe.yama_scope >= 0 ? fmt::format("kernel.yama.ptrace_scope is {}", probe.yama_scope)
                                   : "";
    default:
      return "";
  }
}

// What is not in UKS_FEATURES.
void add_other_findings(Diagnosis& d, const HostProbe& probe) {
  const auto add = [&](const char* name, bool present, bool required, std::string detail,
                       const char* adds) {
    d.features.push_back({name, present, false, required, std::move(detail), adds});
  };
  add("seccomp", probe.filters, true, "", "system call filters: the boundary itself");
  add("ptrace", probe.ptrace, false, "",
      "platform ptrace, where the trap platform is not to be had");
  add("proc", probe.proc_mounted, true, probe.proc_mounted ? "" : "/proc is not mounted",
      "how uks starts its own roles and reaches the guest's memory");
  add("child_list", probe.children_list, false, "",
      "orphaned processes are found without a walk of all of /proc");
  add("process_vm_readv", probe.process_vm, false, "",
      "the same in one system call; nothing depends on it yet");
  add("cgroup", probe.cgroup_version != 0, false,
      probe.cgroup_version ? fmt::format("version {}", probe.cgroup_version)
                           : "none at /sys/fs/cgroup",
      "limits that the host's kernel enforces; nothing depends on it yet");
}

}  // namespace

Diagnosis diagnose(const HostProbe& probe, bool root) {
  Diagnosis d;
  d.kernel = probe.kernel;
  for (const FeatureText& text : kFeatureTexts) {
    Finding finding;
    finding.name = name_of(text.feature);
    finding.present = usable(probe, text.feature);
    finding.masked = is_masked(text.feature);
    finding.detail = feature_detail(probe, text.feature);
    finding.adds = text.adds;
    d.features.push_back(std::move(finding));
  }
  add_other_findings(d, probe);
  for (const Finding& f : d.features) {
    if (!f.required || f.present) continue;
    d.problems.push_back(
        fmt::format("{} {}", f.name, f.masked ? "is switched off by UKS_FEATURES" : "is missing") +
        (f.detail.empty() ? "" : ": " + f.detail));
  }
  if (usable(probe, Feature::kNotify) && usable(probe, Feature::kWaitKillable)) {
    d.platform = "trap";
  } else if (probe.ptrace) {
    d.platform = "ptrace";
  } else {
    d.problems.push_back(
        "neither platform works: trap needs notify and wait_killable, ptrace needs ptrace");
  }
  d.layers = {"seccomp filters: guest processes, sentry, gofer",
              "no new privileges, no capabilities, no core dumps"};
  if (root) d.layers.push_back("the sentry runs under a user id of its own");
  if (root || usable(probe, Feature::kUserns)) d.layers.push_back("IPC and UTS namespaces");
  if (!root && usable(probe, Feature::kUserns)) d.layers.push_back("user namespace");
  if (usable(probe, Feature::kLandlock))
    d.layers.push_back(fmt::format("Landlock, interface {}", probe.landlock_abi));
  if (usable(probe, Feature::kMseal)) d.layers.push_back("sealed stub code");
  if (probe.outer_filters > 0)
    d.layers.push_back(
        fmt::format("{} seccomp filter(s) that uks itself was started under", probe.outer_filters));
  return d;
}

std::string diagnosis_text(const Diagnosis& d) {
  std::string out =
      fmt::format("uks {} on Linux {}\n\nFeatures of this host:\n", kVersion, d.kernel);
  for (const Finding& f : d.features) {
    const char* state = f.masked ? "masked" : f.present ? "yes" : "no";
    out += fmt::format("  {:<17}{:<8}{}{}\n", f.name, state, f.adds,
                       f.detail.empty() ? "" : " [" + f.detail + "]");
  }
  out += "\nLayers around a sandbox:\n";
  for (const std::string& layer : d.layers) out += "  " + layer + "\n";
  bool heading = false;
  for (const Finding& f : d.features) {
    if (f.present || f.required) continue;
    if (!heading) out += "\nMissing, and not needed:\n";
    heading = true;
    out += fmt::format("  {}: would add: {}\n", f.name, f.adds);
  }
  out += d.problems.empty() ? "\nSandboxes can run here (platform " + d.platform + ").\n"
                            : "\nSandboxes cannot run here:\n";
  for (const std::string& problem : d.problems) out += "  " + problem + "\n";
  return out;
}

std::string diagnosis_json(const Diagnosis& d) {
  using nlohmann::ordered_json;
  ordered_json json;
  json["version"] = kVersion;
  json["kernel"] = d.kernel;
  json["can_run"] = d.problems.empty();
  json["platform"] = d.platform;
  json["features"] = ordered_json::array();
  for (const Finding& f : d.features) {
    json["features"].push_back({{"name", f.name},
                                {"present", f.present},
                                {"masked", f.masked},
                                {"required", f.required},
                                {"detail", f.detail},
                                {"adds", f.adds}});
  }
  json["layers"] = d.layers;
  json["problems"] = d.problems;
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int doctor_command(const DoctorOptions& options) {
  const Diagnosis d = diagnose(probe_host(), ::geteuid() == 0);
  const std::string text = options.json ? diagnosis_json(d) : diagnosis_text(d);
  if (!print_all(text)) return kExitFailure;
  return d.problems.empty() ? 0 : 1;
}

}  // namespace uks::cli
