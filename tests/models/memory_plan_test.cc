// The memory plan must predict from headers what loading does, and name the flag that makes a model fit.

#include "models/memory_plan.h"

#include <gtest/gtest.h>

#include "gpu/kernels.h"
#include "models/model.h"
#include "models/model_files.h"
#include "tests/models/family_table.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

using test::TempDir;
using test::TinyModel;

class MemoryPlanTest : public testing::Test {
 protected:
  ModelFiles open(const TinyModel& model) {
    dir_.write("config.json", model.config_json());
    dir_.write("model.safetensors", model.safetensors().bytes());
    return ModelFiles::open(dir_.path());
  }
  TempDir dir_;
};

TEST_F(MemoryPlanTest, StateIsWhatTheLoadedModelDeclares) {
  for (const char* type : {"llama", "qwen3", "qwen3_5_text"}) {
    const ModelFiles files = open(TinyModel({.type = type, .hidden = 16, .value_dim = 8}));
    for (const gpu::KvType kv : {gpu::KvType::kF32, gpu::KvType::kBF16}) {
      ComputeOptions options;
      options.kv = kv;
      const MemoryPlan plan = plan_memory(files, options);
      gpu::Threads threads(1);
      const auto model = load_on_cpu(dir_.path(), options, threads);
      EXPECT_EQ(plan.token_state, model->state().sizes().page_bytes / gpu::kPageTokens) << type;
      EXPECT_EQ(plan.sequence_state, model->state().sizes().slot_bytes) << type;
    }
  }
}

TEST(MemoryPlanSamples, PlannedStateMatchesLoadedModelInEveryFamily) {
  for (const test::FamilySample& row : test::family_samples()) {
    const std::filesystem::path file = test::sample_checkpoint(row);
    gpu::Threads threads(1);
    const auto model = load_on_cpu(file, {}, threads);
    const MemoryPlan plan = plan_memory(ModelFiles::open(file), {});
    EXPECT_EQ(plan.token_state, model->state().sizes().page_bytes / gpu::kPageTokens) << row;
    EXPECT_EQ(plan.sequence_state, model->state().sizes().slot_bytes) << row;
    EXPECT_GT(plan.token_state + plan.sequence_state, 0U) << row;
  }
}

TEST(MemoryPlanPrompts, HoldAllOfThemUntilTheyAreCompacted) {
  MemoryPlan plan;
  plan.token_state = 10;
  plan.sequence_state = 7;
  plan.query_elements = 3;
  const KvBudget budget{.tokens = 100, .window = 32};
  for (const std::uint64_t tokens : {1U, 64U, 100U}) {  // rounds up to whole pages, and respects the budget
    const PromptState state = prompt_state(plan, tokens, budget, 2);
    EXPECT_EQ(state.read, 7U + (tokens > 64 ? 128 : 64) * 10) << tokens;
    EXPECT_EQ(state.after, state.read) << tokens;
  }
  const PromptState state = prompt_state(plan, 300, budget, 2);
  EXPECT_EQ(state.after, 7U + 128 * 10);
  EXPECT_EQ(state.read, 7U + 320 * 10 + 128 * 10 + 32 * 3 * 2) << "what is kept and the queries beside it";
  EXPECT_EQ(prompt_state(plan, 300, {}, 2).read, 7U + 320 * 10) << "nothing is left out";
}

TEST_F(MemoryPlanTest, CountsEveryTensorOnceByItsFormat) {
  const TinyModel model({.type = "llama"});
  const ModelFiles files = open(model);
  ComputeOptions exact;
  exact.compute = gpu::Compute::kF32;
  const MemoryPlan plan = plan_memory(files, exact);
  ASSERT_EQ(plan.formats.size(), 1U);
  EXPECT_EQ(plan.formats[0].name, "BF16");
  EXPECT_EQ(plan.formats[0].tensors, model.tensors.size());
  EXPECT_EQ(plan.formats[0].bytes, files.total_bytes());
  EXPECT_EQ(plan.formats[0].parameters, files.total_bytes() / 2);
  EXPECT_EQ(plan.in_place + plan.copied, files.total_bytes());  // f32 weights are not packed
  EXPECT_EQ(plan.packed, 0U);
}

TEST_F(MemoryPlanTest, WhatAGgufFileHasOtherwiseIsCopied) {
  const TinyModel model({.type = "qwen3_5_text"});
  const ModelFiles gguf = ModelFiles::open(dir_.write("m.gguf", model.gguf(true).bytes()));
  std::uint64_t copied = 0;
  for (const std::string& name : gguf.names()) {
    EXPECT_EQ(gguf.is_copied(name), gguf.tensor(name).owned != nullptr) << name;
    if (gguf.is_copied(name)) copied += byte_size(gguf.stored_type(name), gguf.shape(name)).value();
  }
  EXPECT_GT(copied, 0U);
  EXPECT_EQ(plan_memory(gguf, {}).copied, copied);
}

TEST(MemoryPlanSamples, CountsPartsThatKeepState) {
  const auto plan_of = [](const char* sample) {
    return plan_memory(ModelFiles::open(test::sample_checkpoint({.family = sample, .sample = sample})), {});
  };
  EXPECT_EQ(plan_of("mamba").parts_with_token_state, 0U);
  EXPECT_EQ(plan_of("mamba").parts_with_sequence_state, 3U);
  EXPECT_EQ(plan_of("jamba").parts_with_token_state, 2U);
  EXPECT_EQ(plan_of("jamba").parts_with_sequence_state, 6U);
  EXPECT_EQ(plan_of("llama").parts_with_sequence_state, 0U);
}

TEST(MemoryPlanState, SaysHowManySnapshotsFit) {
  MemoryPlan plan;
  plan.in_place = 1000;
  plan.activations = 24;
  plan.token_state = 2;
  plan.sequence_state = 72;
  EXPECT_EQ(plan.state(64), 200U);
  EXPECT_EQ(plan.next_snapshot(), 200U);
  EXPECT_EQ(plan.fitting(1024 + 999, plan.state(64)), 4U);
  EXPECT_EQ(plan.fitting(1024 + 1000, plan.state(64)), 5U);
  EXPECT_EQ(plan.fitting(1000, plan.state(64)), 0U);
  EXPECT_EQ(plan.fitting(5000, 0), 0U);
}

TEST(MemoryPlanVerdict, NamesTheFlagThatWouldMakeItFit) {
  constexpr std::uint64_t kGiB = 1ULL << 30;
  MemoryPlan plan;
  plan.in_place = 4 * kGiB;
  plan.packed = 2 * kGiB;
  plan.token_state = 1 << 16;
  EXPECT_TRUE(verdict(plan, 16 * kGiB, 0).starts_with("yes: 20 sequences of 8192 tokens"));
  EXPECT_NE(verdict(plan, 16 * kGiB, 12 * kGiB).find("--state-mb 10240 fits"), std::string::npos);
  EXPECT_NE(verdict(plan, 5 * kGiB, 0).find("--compute f32 packs nothing, and fits"), std::string::npos);
  EXPECT_TRUE(verdict(plan, 3 * kGiB, 0).starts_with("no: "));
  EXPECT_EQ(verdict(plan, 3 * kGiB, 0).find("--compute"), std::string::npos);
  EXPECT_NE(verdict(plan, 6 * kGiB + (100 << 20), 0).find("not one sequence of 8192"), std::string::npos);
  EXPECT_EQ(in_units(1536), "1.5 KiB");
  EXPECT_EQ(in_units(3 << 20), "3.0 MiB");
  EXPECT_EQ(in_units(5 * kGiB / 2), "2.50 GiB");
}

TEST(MemoryPlanVerdict, CountsSequencesOfTheModelsContext) {
  MemoryPlan plan;
  plan.token_state = 1 << 16;
  plan.context = 4096;
  EXPECT_EQ(verdict(plan, 10ULL << 30, 0), "yes: 40 sequences of 4096 tokens beside the weights, at most");
  plan.token_state = 16;
  EXPECT_EQ(verdict(plan, 10ULL << 30, 0),
            "yes: over 1000 sequences of 4096 tokens beside the weights, at most");
  EXPECT_EQ(in_sequences(1, 64), "1 sequence of 64 tokens");
}

}  // namespace
}  // namespace reprise::models
