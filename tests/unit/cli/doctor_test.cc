// The report of `uks doctor`, on made-up hosts.
#include "tools/cli/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace uks::cli {
namespace {

HostProbe good_host() {
  HostProbe probe;
  probe.kernel = "6.12.0";
  probe.has.fill(true);
  probe.landlock_abi = 6;
  probe.cgroup_version = 2;
  probe.filters = probe.ptrace = probe.proc_mounted = probe.children_list = probe.process_vm = true;
  return probe;
}

const Finding& finding(const Diagnosis& d, const std::string& name) {
  const auto found = std::ranges::find(d.features, name, &Finding::name);
  EXPECT_NE(found, d.features.end()) << name;
  return *found;
}

class Doctor : public ::testing::Test {
 protected:
  void TearDown() override { mask_features(""); }
};

TEST_F(Doctor, AGoodHostLacksNothing) {
  const Diagnosis d = diagnose(good_host(), false);
  EXPECT_TRUE(d.problems.empty());
  for (const Finding& f : d.features) EXPECT_TRUE(f.present && !f.masked) << f.name;
  for (const std::string_view name : kFeatureNames) finding(d, std::string(name));
  EXPECT_NE(diagnosis_text(d).find("can run here (platform trap)"), std::string::npos);
}

TEST_F(Doctor, MasksShow) {
  ASSERT_FALSE(mask_features("-mseal,-notify"));
  const Diagnosis d = diagnose(good_host(), false);
  EXPECT_TRUE(finding(d, "mseal").masked);
  EXPECT_FALSE(finding(d, "mseal").present);
  EXPECT_TRUE(d.problems.empty());
  EXPECT_EQ(d.platform, "ptrace");
  EXPECT_TRUE(std::ranges::none_of(
      d.layers, [](const std::string& l) { return l.find("sealed") != l.npos; }));
}

TEST_F(Doctor, MissingFeaturesSayWhatTheyWouldAdd) {
  HostProbe probe = good_host();
  probe.has[static_cast<size_t>(Feature::kLandlock)] = false;
  probe.landlock_abi = 0;
  probe.has[static_cast<size_t>(Feature::kUserns)] = false;
  probe.userns_reason = "user.max_user_namespaces is 0";
  const Diagnosis d = diagnose(probe, false);
  EXPECT_TRUE(d.problems.empty());
  const std::string text = diagnosis_text(d);
  EXPECT_NE(text.find("landlock: would add"), std::string::npos);
  EXPECT_NE(text.find("user.max_user_namespaces is 0"), std::string::npos);
}

TEST_F(Doctor, JsonParses) {
  HostProbe probe = good_host();
  probe.has[static_cast<size_t>(Feature::kNotify)] = false;
  probe.seccomp_error = 16;
  probe.ptrace = false;
  const auto json = nlohmann::json::parse(diagnosis_json(diagnose(probe, true)), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["can_run"], false);
  EXPECT_EQ(json["kernel"], "6.12.0");
  EXPECT_EQ(json["features"].size(), kFeatureCount + 6);
}

TEST_F(Doctor, TheProbeOfThisHostAnswers) {
  const HostProbe probe = probe_host();
  EXPECT_FALSE(probe.kernel.empty());
  EXPECT_EQ(probe.has[static_cast<size_t>(Feature::kLandlock)], probe.landlock_abi > 0);
}

}  // namespace
}  // namespace uks::cli
