// `uks doctor`: what the host has, what each missing feature would have added, what was masked.
#pragma once
#include <string>
#include <vector>

#include "tools/cli/args.h"
#include "tools/cli/host_probe.h"

namespace uks::cli {

// A line of the report.
struct Finding {
  std::string name;
  bool present = false;   // there, and not switched off
  bool masked = false;    // by UKS_FEATURES
  bool required = false;  // no sandbox without it, whatever the platform
  std::string detail;     // a version, an error; may be empty
  std::string adds;       // what uks does with it
};

struct Diagnosis {
  std::string kernel;
  std::string platform;  // what auto takes: trap or ptrace; empty: neither works
  std::vector<Finding> features;
  std::vector<std::string> layers;    // around a sandbox on this host, the filters first
  std::vector<std::string> problems;  // why no sandbox can run; empty if one can
};

Diagnosis diagnose(const HostProbe& probe, bool root);
std::string diagnosis_text(const Diagnosis& diagnosis);
std::string diagnosis_json(const Diagnosis& diagnosis);

// The exit code: 0 if a sandbox can run here, else 1.
int doctor_command(const DoctorOptions& options);

}  // namespace uks::cli
