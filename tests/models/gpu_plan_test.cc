// Planning of GPU memory: how it is divided, and the message if a model does not fit.

#include "models/gpu_plan.h"

#include <gtest/gtest.h>

#include "gpu/weights/kept_formats.h"
#include "models/compute_options.h"
#include "models/model_files.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

using test::TempDir;
using test::TinyModel;

constexpr std::uint64_t kGiB = 1ULL << 30;

ModelFiles open(TempDir& dir, const TinyModel& model) {
  dir.write("config.json", model.config_json());
  dir.write("model.safetensors", model.safetensors().bytes());
  return ModelFiles::open(dir.path());
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
  const ModelFiles files = open(dir, TinyModel({.type = "qwen3_5_text", .hidden = 16, .value_dim = 8}));
  const GpuPlan plan = plan_gpu(files, {}, 12 * kGiB);
  std::uint64_t wanted = 0;
  for (const std::string& name : files.names()) {
    const Shape& shape = files.shape(name);
    const std::uint64_t elements = *element_count(shape);
    wanted += shape.size() == 1 ? 4 * elements : (elements / shape.back() + 7) / 8 * 8 * shape.back() * 2;
  }
  EXPECT_EQ(plan.weights, wanted);
  EXPECT_EQ(plan.state, gpu_state_bytes(10 * kGiB, wanted));
  ComputeOptions bf16;
  bf16.kv = gpu::KvType::kBF16;
  EXPECT_EQ(plan.of_state.token_state, plan_memory(files, bf16).token_state);
  EXPECT_TRUE(plan.fits());
  EXPECT_EQ(verdict(plan).substr(0, 5), "yes: ");
}

TEST(GpuPlan, CountsKeysAndValuesAsTheyAreAskedFor) {
  TempDir dir;
  const ModelFiles files = open(dir, TinyModel({.type = "llama"}));
  for (const gpu::KvType kv : {gpu::KvType::kBF16, gpu::KvType::kInt8, gpu::KvType::kInt4}) {
    const GpuPlan plan = plan_gpu(files, {.kv = kv}, 12 * kGiB);
    EXPECT_TRUE(plan.fits());
    EXPECT_EQ(plan.of_state.token_state, plan_memory(files, {.kv = kv}).token_state) << name_of(kv);
  }
  const GpuPlan refused = plan_gpu(files, {.kv = gpu::KvType::kF32}, 12 * kGiB);
  EXPECT_FALSE(refused.fits());
  EXPECT_NE(verdict(refused).find("f32"), std::string::npos) << verdict(refused);
}

TEST(GpuPlan, CountsQuantizedWeightsInTheirOwnSize) {
  EXPECT_EQ(gpu::gpu_weight_bytes(gpu::kQ4_KFormat, 64, 1024), 64 * 4 * 144U);
  EXPECT_EQ(gpu::gpu_weight_bytes(gpu::kQ8_0Format, 3, 96), 8 * 8 * 34U) << "rows and columns filled up";
  EXPECT_EQ(gpu::gpu_weight_bytes(gpu::kQ5_1Format, 64, 1024), 64 * 1024 * 2U) << "as bf16";
  EXPECT_EQ(gpu::gpu_weight_bytes(gpu::kF8TileFormat, 128, 256), 128 * 256 + 128 * 2 * 4U);
}

TEST(GpuPlan, NamesASmallerFileWhereThatWouldFit) {
  GpuPlan plan;
  plan.memory = 12 * kGiB;
  plan.arena = 10 * kGiB;
  plan.weights = 18 * kGiB;
  plan.matrix_elements = 9 * kGiB;
  plan.of_state.sequence_state = 1 << 20;
  plan.of_state.token_state = 1 << 10;
  EXPECT_NE(verdict(plan).find("a Q4_K_M file of the model fits"), std::string::npos) << verdict(plan);
  plan.matrix_elements = 35 * kGiB;
  EXPECT_EQ(verdict(plan).find("Q4_K_M"), std::string::npos) << verdict(plan);
}

TEST(GpuPlan, ExpertsOnTheHostTakeItsMemory) {
  TempDir dir;
  const ModelFiles files =
      open(dir, TinyModel({.type = "qwen3_5_moe_text", .hidden = 16, .value_dim = 8, .experts = 5}));
  const GpuPlan plan = plan_gpu(files, {}, 12 * kGiB);
  const std::size_t layers = parts_of<MoeSpec>(files.config().layers).size();
  ASSERT_EQ(plan.experts.size(), layers);
  EXPECT_EQ(plan.host_weights(), 0U);
  const GpuPlan one = plan_gpu(files, {}, 12 * kGiB, 1);
  EXPECT_EQ(one.host_layers, 1U);
  EXPECT_EQ(one.weights, plan.weights - plan.experts[0].on_gpu);
  EXPECT_EQ(one.host_weights(), plan.experts[0].on_host);
  EXPECT_EQ(one.state, gpu_state_bytes(one.arena, one.weights));
  const GpuPlan all = plan_gpu(files, {}, 12 * kGiB, kAllLayers);
  std::uint64_t experts = 0;  // bytes as bf16, rounded up to groups of eight rows
  for (const std::string& name : files.names()) {
    if (name.find(".experts.") == std::string::npos) continue;
    const Shape& shape = files.shape(name);
    experts += (shape[0] + 7) / 8 * 8 * shape[1] * 2;
  }
  EXPECT_EQ(all.weights, plan.weights - experts);
  EXPECT_EQ(all.host_layers, layers);
  EXPECT_THROW(plan_gpu(files, {}, 12 * kGiB, static_cast<std::uint32_t>(layers) + 1), SettingError);
}

TEST(GpuPlan, NamesTheLayersWhoseExpertsMustBeOnTheHost) {
  GpuPlan plan;
  plan.memory = 12 * kGiB;
  plan.arena = 10 * kGiB;
  plan.weights = 20 * kGiB;
  plan.experts.assign(40, {.on_gpu = kGiB / 4, .on_host = kGiB / 2});
  plan.of_state.sequence_state = 1 << 20;
  plan.of_state.token_state = 1 << 10;
  const std::string said = verdict(plan);
  EXPECT_EQ(said.substr(0, 4), "no: ") << said;
  // With 40 layers on the host, 10 GiB of weights leave no memory for a state.
  EXPECT_EQ(said.find("--cpu-experts"), std::string::npos) << said;
  plan.weights = 18 * kGiB;
  // 33 layers leave 9.75 GiB of weights.
  EXPECT_NE(
      verdict(plan).find("--cpu-experts 33 fits: the experts of 33 of 40 layers on the host, 16.50 GiB"),
      std::string::npos)
      << verdict(plan);
  const GpuPlan more = plan.with_host_layers(33);
  EXPECT_EQ(verdict(more).substr(0, 5), "yes: ") << verdict(more);
  // With some layers already on the host, the message still has the total number.
  EXPECT_NE(verdict(plan.with_host_layers(3)).find("--cpu-experts 33 fits"), std::string::npos);
}

TEST(GpuPlan, SaysHowLargeAGpuWouldDo) {
  TempDir dir;
  const ModelFiles files = open(dir, TinyModel({.type = "llama"}));
  const GpuPlan small = plan_gpu(files, {}, 1024);
  EXPECT_FALSE(small.fits());
  const std::string said = verdict(small);
  EXPECT_EQ(said.substr(0, 4), "no: ") << said;
  EXPECT_NE(said.find("hold them and one sequence"), std::string::npos) << said;
  EXPECT_NE(said.find("--device cpu"), std::string::npos) << said;
  EXPECT_TRUE(plan_gpu(files, {}, 3 * kGiB).fits());
}

}  // namespace
}  // namespace reprise::models
