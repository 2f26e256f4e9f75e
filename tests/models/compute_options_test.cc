// Parsing of compute settings, and which of them a GPU refuses.

#include "models/compute_options.h"

#include <gtest/gtest.h>

#include "models/gpu_plan.h"

namespace reprise::models {
namespace {

using gpu::Compute;
using gpu::KvType;

TEST(ComputeOptions, WordsAreThoseOfTheSettings) {
  for (const Compute compute : {Compute::kF32, Compute::kAuto, Compute::kPrecise, Compute::kBf16}) {
    EXPECT_EQ(gpu::compute_named(name_of(compute)), compute);
  }
  EXPECT_EQ(gpu::compute_named("f16"), std::nullopt);
  try {
    compute_options("f16", "auto", "");
    ADD_FAILURE() << "a setting that there is not";
  } catch (const SettingError& error) {
    EXPECT_STREQ(error.what(), "compute: 'f16' is not one of f32, precise, bf16, auto");
  }
}

TEST(ComputeOptions, PreciseOnesKeepKeysAndValuesOfF32) {
  EXPECT_EQ(compute_options("f32", "auto", "").kv, KvType::kF32);
  EXPECT_EQ(compute_options("precise", "auto", "").kv, KvType::kF32);
  EXPECT_EQ(compute_options("precise", "int8", "").kv, KvType::kInt8);
  EXPECT_EQ(compute_options("auto", "auto", "").kv, KvType::kBF16);
  EXPECT_EQ(compute_options("bf16", "auto", "").kv, KvType::kBF16);
}

TEST(ComputeOptions, AGpuTakesAllButTheReference) {
  for (const char* compute : {"auto", "bf16", "precise"}) {
    EXPECT_FALSE(gpu_refusal(compute_options(compute, "auto", ""))) << compute;
  }
  EXPECT_TRUE(gpu_refusal(compute_options("f32", "auto", "")));
  EXPECT_TRUE(gpu_refusal(compute_options("auto", "f32", "")))
      << "keys and values of f32 come with precise alone";
}

}  // namespace
}  // namespace reprise::models
