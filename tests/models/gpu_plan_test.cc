// The plan of a GPU's memory: what is divided how, and what is said where a model does not fit.

#include "models/gpu_plan.h"

#include <gtest/gtest.h>

#include "models/checkpoint.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

using test::TempDir;
using test::TinyModel;

constexpr std::uint64_t kGiB = 1ULL << 30;

Checkpoint open(TempDir& dir, const TinyModel& model) {
  dir.write("config.json", model.config_json());
  dir.write("model.safetensors", model.safetensors().bytes());
  return Checkpoint::open(dir.path());
}

TEST(GpuPlan, TheArenaLeavesTwoGiBOrATenthOrHalf) {
  EXPECT_EQ(gpu_arena_bytes(2 * kGiB), kGiB);
  EXPECT_EQ(gpu_arena_bytes(12 * kGiB), 10 * kGiB);
  EXPECT_EQ(gpu_arena_bytes(140 * kGiB), 126 * kGiB);
  EXPECT_EQ(gpu_arena_bytes(0), 0U);
  EXPECT_EQ(gpu_state_bytes(64, 128), 0U);
  EXPECT_EQ(gpu_state_bytes(kGiB, 0), kGiB - kGiB / 64);
}

TEST(GpuPlan, CountsMatricesAsBf16AndKeysAndValuesToo) {
  TempDir dir;
  const Checkpoint checkpoint = open(dir, TinyModel({.type = "qwen3_5_text", .hidden = 16, .value_dim = 8}));
  const GpuPlan plan = plan_gpu(checkpoint, 12 * kGiB);
  std::uint64_t wanted = 0;
  for (const std::string& name : checkpoint.names()) {
    const Shape& shape = checkpoint.shape(name);
    wanted += *element_count(shape) * (shape.size() == 1 ? 4 : 2);
  }
  EXPECT_EQ(plan.weights, wanted);
  EXPECT_EQ(plan.state, gpu_state_bytes(10 * kGiB, wanted));
  ComputeOptions bf16;
  bf16.kv = gpu::KvType::kBF16;
  EXPECT_EQ(plan.of_state.token_state, plan_memory(checkpoint, bf16).token_state);
  EXPECT_TRUE(plan.fits());
  EXPECT_EQ(verdict(plan).substr(0, 5), "yes: ");
}

TEST(GpuPlan, SaysHowLargeAGpuWouldDo) {
  TempDir dir;
  const Checkpoint checkpoint = open(dir, TinyModel({.type = "llama"}));
  const GpuPlan small = plan_gpu(checkpoint, 1024);
  EXPECT_FALSE(small.fits());
  const std::string said = verdict(small);
  EXPECT_EQ(said.substr(0, 4), "no: ") << said;
  EXPECT_NE(said.find("hold them and one sequence"), std::string::npos) << said;
  EXPECT_NE(said.find("--device cpu"), std::string::npos) << said;
  EXPECT_TRUE(plan_gpu(checkpoint, 3 * kGiB).fits());
}

}  // namespace
}  // namespace reprise::models
