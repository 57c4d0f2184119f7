// The list of UKS_FEATURES.
#include "platform/host/features.h"

#include <gtest/gtest.h>

namespace uks {
namespace {

class Features : public ::testing::Test {
 protected:
  void TearDown() override { mask_features(""); }
};

TEST_F(Features, EachNameMasksOne) {
  for (size_t i = 0; i < kFeatureCount; i++) {
    EXPECT_FALSE(mask_features("-" + std::string(kFeatureNames[i])));
    for (size_t j = 0; j < kFeatureCount; j++)
      EXPECT_EQ(is_masked(static_cast<Feature>(j)), i == j);
  }
}

TEST_F(Features, Lists) {
  EXPECT_FALSE(mask_features("-mseal, -landlock,,"));
  EXPECT_TRUE(is_masked(Feature::kMseal));
  EXPECT_TRUE(is_masked(Feature::kLandlock));
  EXPECT_FALSE(is_masked(Feature::kNotify));
}

TEST_F(Features, WhatIsNoFeatureIsReported) {
  for (const char* bad : {"mseal", "+mseal", "-warp", "-", "-mseal,-", "-MSEAL"})
    EXPECT_TRUE(mask_features(bad)) << bad;
  EXPECT_EQ(mask_features("-mseal,-warp"), "-warp");
  EXPECT_FALSE(is_masked(Feature::kMseal));
}

}  // namespace
}  // namespace uks
