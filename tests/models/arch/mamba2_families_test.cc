// The Mamba-2 families: outputs match a naive implementation, every cut is restored bit for bit, and
// unsupported configs are refused by key and value.

#include <gtest/gtest.h>

#include <cstring>

#include "models/cpu/host_model.h"
#include "tests/models/arch/mamba2_configs.h"
#include "tests/models/arch/naive_layers.h"
#include "tests/models/config_parts.h"
#include "tests/models/expect_error.h"
#include "tests/models/files/checkpoint_files.h"

namespace reprise::models {
namespace {

using test::falcon_h1;
using test::mamba2;
using test::nemotron_h;
using test::nemotron_h_moe;
using test::random_weights;
using test::read;
using test::SafetensorsWriter;
using test::TempDir;
using test::Weights;

ModelFiles open_folder(const TempDir& dir, const std::string& json, const Weights& weights,
                       const std::string& prefix) {
  const ModelConfig config = read(json);
  SafetensorsWriter writer;
  for (const TensorSpec& tensor : config.tensors) {
    writer.tensor((tensor.name == "lm_head.weight" ? "" : prefix) + tensor.name, "F32", tensor.shape,
                  test::raw_f32(weights.at(tensor.name)));
  }
  dir.write("config.json", json);
  dir.write("model.safetensors", writer.bytes());
  return ModelFiles::open(dir.path());
}

std::vector<TokenId> some_tokens(std::size_t count) {
  std::vector<TokenId> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<TokenId>(i * i * 7 % 13);
  return out;
}

struct Variant {
  const char* name;
  std::string config;
  const char* prefix = "backbone.";
};

class Mamba2Families : public testing::TestWithParam<Variant> {
 protected:
  std::vector<float> run(Model& model, gpu::Sequence& sequence, std::span<const TokenId> tokens) const {
    const Slice slice{.sequence = &sequence, .tokens = tokens, .logits = Slice::Logits::kAll};
    const std::span<const float> logits = model.forward({&slice, 1}, Phase::kPrefill);
    return {logits.begin(), logits.end()};
  }

  const ModelConfig config_ = read(GetParam().config);
  const Weights weights_ = random_weights(config_);
  TempDir dir_;
  gpu::Threads threads_{2};
};

TEST_P(Mamba2Families, ComputeWhatANaiveComputationGives) {
  cpu::HostModel model(open_folder(dir_, GetParam().config, weights_, GetParam().prefix),
                       {.compute = gpu::Compute::kF32, .kv = gpu::KvType::kF32}, threads_);
  gpu::StateStore store(model.state().sizes(), {.pages = 2, .slots = 1});
  std::optional<gpu::Sequence> sequence = store.open();
  const std::vector<TokenId> prompt = some_tokens(70);
  ASSERT_TRUE(sequence && sequence->reserve(prompt.size()));
  const std::vector<float> logits = run(model, *sequence, prompt);
  const test::Rows expected = test::NaiveModel(config_, weights_).run(prompt);
  double largest = 0;
  for (const test::Row& row : expected) {
    for (const double value : row) largest = std::max(largest, std::abs(value));
  }
  EXPECT_GT(largest, 0.5);
  for (std::size_t t = 0; t < prompt.size(); ++t) {
    for (std::size_t i = 0; i < config_.vocab; ++i) {
      ASSERT_NEAR(logits[t * config_.vocab + i], expected[t][i], 1e-4 * largest) << "token " << t;
    }
  }
}

TEST_P(Mamba2Families, EveryCutIsRestoredToTheBit) {
  cpu::HostModel model(open_folder(dir_, GetParam().config, weights_, GetParam().prefix), {}, threads_);
  gpu::StateStore store(model.state().sizes(), {.pages = 16, .slots = 8});
  const std::vector<TokenId> prompt = some_tokens(70);
  const auto open = [&] {
    std::optional<gpu::Sequence> sequence = store.open();
    EXPECT_TRUE(sequence && sequence->reserve(prompt.size()));
    return std::move(*sequence);
  };
  std::vector<float> cold;
  {
    gpu::Sequence sequence = open();
    cold = run(model, sequence, prompt);
  }
  for (std::size_t cut = 1; cut < prompt.size(); ++cut) {
    gpu::Sequence sequence = open();
    std::vector<float> warm = run(model, sequence, std::span(prompt).first(cut));
    const std::optional<gpu::Snapshot> snapshot = store.capture(sequence);
    ASSERT_TRUE(snapshot.has_value());
    std::optional<gpu::Sequence> restored = store.restore(*snapshot).sequence;
    ASSERT_TRUE(restored && restored->reserve(prompt.size() - cut));
    const std::vector<float> rest = run(model, *restored, std::span(prompt).subspan(cut));
    warm.insert(warm.end(), rest.begin(), rest.end());
    ASSERT_EQ(warm.size(), cold.size());
    ASSERT_EQ(std::memcmp(warm.data(), cold.data(), cold.size() * sizeof(float)), 0) << "cut at " << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Variants, Mamba2Families,
    testing::Values(
        Variant{"mamba2", mamba2()},  //
        Variant{"mamba2_prefixed", mamba2(R"("tie_word_embeddings": true)"), "model.backbone."},
        Variant{"mamba2_biases", mamba2(R"("use_bias": true, "use_conv_bias": false)")},
        Variant{"mamba2_limited", mamba2(R"("time_step_limit": [0.4, {"__float__": "Infinity"}])")},
        Variant{"mamba2_both_limits", mamba2(R"("time_step_limit": [0.4, 0.9])")},
        Variant{"falcon_h1", falcon_h1(), "model."},
        Variant{"falcon_h1_biases",
                falcon_h1(R"("mamba_proj_bias": true, "projectors_bias": true, "attention_bias": true,
                             "mlp_bias": true, "mamba_conv_bias": false)"),
                "model."},
        Variant{"falcon_h1_norm_first", falcon_h1(R"("mamba_rms_norm": true)"), "model."},
        Variant{"falcon_h1_gate_first",
                falcon_h1(R"("mamba_rms_norm": true, "mamba_norm_before_gate": false)"), "model."},
        Variant{"nemotron_h", nemotron_h(R"("layers_block_type":
            ["linear_attention", "mlp", "full_attention", "mamba"])")},
        Variant{"nemotron_h_experts", nemotron_h_moe("")},
        Variant{"nemotron_h_latent", nemotron_h_moe(R"("moe_latent_size": 8)")},
        Variant{"nemotron_h_groups",
                nemotron_h_moe(R"("n_group": 4, "topk_group": 2, "norm_topk_prob": false)")},
        Variant{
            "nemotron_h_pattern",
            nemotron_h(R"("hybrid_override_pattern": "M-*M-", "num_hidden_layers": 5, "mlp_bias": true)")}),
    [](const auto& info) { return info.param.name; });

TEST(Mamba2Configs, FalconsHeadsMayFollowFromTheirNumber) {
  const ModelConfig config = read(falcon_h1());
  const auto mamba = first_part<Mamba2Spec>(config);
  EXPECT_EQ(mamba.head_dim, 10u);
  EXPECT_EQ(mamba.gating, Mamba2Spec::Gating::kGateAlone);
  EXPECT_EQ(mamba.multipliers.b, 0.7F);
  EXPECT_EQ(config.embedding_multiplier, 1.5F);
  EXPECT_EQ(config.logit_multiplier, 0.7F);
  std::string automatic = falcon_h1();
  automatic.replace(automatic.find("\"mamba_d_head\": 10"), 18, "\"mamba_d_head\": \"auto\"");
  EXPECT_EQ(first_part<Mamba2Spec>(read(automatic)), mamba);
}

TEST(Mamba2Configs, WhatCannotBeComputedIsRefusedByKey) {
  const auto changed = [](std::string json, const std::string& from, const std::string& to) {
    return json.replace(json.find(from), from.size(), to);
  };
  EXPECT_LOAD_ERROR(read(mamba2(R"("hidden_act": "gelu")")),
                    "hidden_act: the activation 'gelu' is not known");
  EXPECT_LOAD_ERROR(read(changed(mamba2(), "\"n_groups\": 3", "\"n_groups\": 4")),
                    "n_groups: 4 does not divide");
  EXPECT_LOAD_ERROR(read(changed(mamba2(), "\"expand\": 2", "\"expand\": 3")), "expand: ");
  EXPECT_LOAD_ERROR(read(mamba2(R"("time_step_limit": [2, 1])")), "time_step_limit: ");
  EXPECT_LOAD_ERROR(read(mamba2(R"("time_step_limit": [0, {"__float__": "NaN"}])")), "__float__: 'NaN'");
  EXPECT_LOAD_ERROR(read(changed(falcon_h1(), "\"mamba_d_ssm\": 40", "\"mamba_d_ssm\": 48")),
                    "mamba_n_heads: ");
  EXPECT_LOAD_ERROR(read(changed(falcon_h1(), "[0.9, 0.8]", "[0.9]")), "mlp_multipliers: expected 2 numbers");
  EXPECT_LOAD_ERROR(read(nemotron_h(R"("hybrid_override_pattern": "M?")")),
                    "hybrid_override_pattern: unknown layer type '?'");
  EXPECT_LOAD_ERROR(read(nemotron_h(R"("layers_block_type": ["conv"])")), "unknown layer type 'conv'");
  EXPECT_LOAD_ERROR(read(nemotron_h(R"("hybrid_override_pattern": "M-", "mlp_hidden_act": "silu")")),
                    "mlp_hidden_act: the activation 'silu' is not known");
}

}  // namespace
}  // namespace reprise::models
