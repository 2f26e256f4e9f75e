// Configs of selective-scan families as published, and errors in them.

#include <gtest/gtest.h>

#include "models/files/json_location.h"
#include "tests/models/config_parts.h"
#include "tests/models/expect_error.h"

namespace reprise::models {
namespace {

ModelConfig read_scan_config(const std::string& json) {
  return ModelConfig::from_hf(JsonLocation::parse(json, "config.json"));
}

/// Adds or replaces a member; the first of equal names counts.
std::string with(const std::string& json, const std::string& member) {
  const std::string key = member.substr(0, member.find(':'));
  std::string out = json;
  if (const std::size_t at = out.find(key); at != out.npos) out.insert(at + 1, "not_");
  return "{" + member + ", " + out.substr(1);
}

// state-spaces/mamba-130m-hf
const std::string kMamba130m = R"({
  "architectures": ["MambaForCausalLM"], "bos_token_id": 0, "conv_kernel": 4, "d_inner": 1536, "d_model": 768,
  "eos_token_id": 0, "expand": 2, "fused_add_norm": true, "hidden_act": "silu", "hidden_size": 768,
  "initializer_range": 0.1, "intermediate_size": 1536, "layer_norm_epsilon": 1e-05, "model_type": "mamba",
  "n_layer": 24, "num_hidden_layers": 24, "pad_token_id": 0, "pad_vocab_size_multiple": 8,
  "rescale_prenorm_residual": false, "residual_in_fp32": true, "rms_norm": true, "ssm_cfg": {}, "state_size": 16,
  "time_step_floor": 0.0001, "time_step_init_scheme": "random", "time_step_max": 0.1, "time_step_min": 0.001,
  "time_step_rank": 48, "time_step_scale": 1.0, "torch_dtype": "float32", "use_bias": false, "use_cache": true,
  "use_conv_bias": true, "vocab_size": 50280})";

TEST(ScanConfig, MambaAsItIsPublished) {
  const ModelConfig config = read_scan_config(kMamba130m);
  EXPECT_EQ(config.architecture, "mamba");
  EXPECT_EQ(config.embedding, "embeddings");
  EXPECT_TRUE(config.tied());  // the default
  EXPECT_EQ(config.final_norm.name, "norm_f");
  EXPECT_EQ(config.final_norm.kind, (NormKind{.offset = 0, .eps = 1e-5F}));
  EXPECT_EQ(config.context_length, 1U << 20);
  EXPECT_EQ(config.layers.size(), 24U);
  const SelectiveScanSpec expected{.name = "layers.0.mixer",
                                   .hidden = 768,
                                   .inner = 1536,
                                   .state_size = 16,
                                   .step_rank = 48,
                                   .conv_kernel = 4};
  EXPECT_EQ(first_part<SelectiveScanSpec>(config), expected);
}

TEST(ScanConfig, WhatMambaMayLeaveOutOrChange) {
  const auto scan = [&](const std::string& member) {
    return first_part<SelectiveScanSpec>(read_scan_config(with(kMamba130m, member)));
  };
  EXPECT_EQ(scan(R"("time_step_rank": "auto")").step_rank, 48U);
  EXPECT_EQ(scan(R"("time_step_rank": null)").step_rank, 48U);
  EXPECT_EQ(scan(R"("intermediate_size": null)").inner, 1536U);
  EXPECT_EQ(scan(R"("intermediate_size": 1000)").inner, 1000U);
  EXPECT_FALSE(scan(R"("use_conv_bias": false)").conv_bias);
  EXPECT_TRUE(scan(R"("use_bias": true)").in_bias);
  EXPECT_TRUE(scan(R"("use_bias": true)").out_bias);
  EXPECT_FALSE(read_scan_config(with(kMamba130m, R"("tie_word_embeddings": false)")).tied());
}

TEST(ScanConfig, FalconMambaHasNormsInside) {
  const std::string json = R"({
    "architectures": ["FalconMambaForCausalLM"], "bos_token_id": 0, "conv_kernel": 4, "eos_token_id": 11, "expand": 16,
    "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.1, "intermediate_size": 8192,
    "layer_norm_epsilon": 1e-05, "model_type": "falcon_mamba", "num_hidden_layers": 64, "pad_token_id": 11,
    "rescale_prenorm_residual": false, "residual_in_fp32": true, "state_size": 16, "tie_word_embeddings": false,
    "time_step_floor": 0.0001, "time_step_rank": 256, "use_bias": false, "use_conv_bias": true, "use_mambapy": false,
    "vocab_size": 65024})";
  const ModelConfig config = read_scan_config(json);
  EXPECT_FALSE(config.tied());
  const auto scan = first_part<SelectiveScanSpec>(config);
  EXPECT_EQ(scan.inner, 8192U);  // regardless of `expand`
  EXPECT_EQ(scan.norms, ScanNorms::kWeightless);
  EXPECT_EQ(scan.norm.eps, 1e-6F);
  EXPECT_EQ(first_part<SelectiveScanSpec>(read_scan_config(with(json, R"("mixer_rms_eps": 1e-4)"))).norm.eps,
            1e-4F);
}

// ai21labs/Jamba-v0.1
const std::string kJamba = R"({
  "architectures": ["JambaForCausalLM"], "attention_dropout": 0.0, "attn_layer_offset": 4, "attn_layer_period": 8,
  "bos_token_id": 1, "eos_token_id": 2, "expert_layer_offset": 1, "expert_layer_period": 2, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "mamba_conv_bias": true,
  "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_dt_rank": 256, "mamba_expand": 2, "mamba_proj_bias": false,
  "max_position_embeddings": 262144, "model_type": "jamba", "num_attention_heads": 32, "num_experts": 16,
  "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_logits_to_keep": 1,
  "output_router_logits": false, "pad_token_id": 0, "rms_norm_eps": 1e-06, "router_aux_loss_coef": 0.001,
  "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
  "use_mamba_kernels": true, "vocab_size": 65536})";

TEST(ScanConfig, JambaAsItIsPublished) {
  const ModelConfig config = read_scan_config(kJamba);
  EXPECT_EQ(config.final_norm.name, "final_layernorm");
  ASSERT_EQ(config.layers.size(), 32U);
  for (std::size_t i = 0; i < 32; ++i) {
    ASSERT_EQ(config.layers[i].steps.size(), 2U);
    EXPECT_EQ(attends(config.layers[i]), i % 8 == 4) << i;
    EXPECT_EQ(std::holds_alternative<MoeSpec>(config.layers[i].steps[1].parts.front()), i % 2 == 1) << i;
  }
  const AttentionSpec attention = attention_of(config);
  EXPECT_EQ(attention.rope, nullptr);
  EXPECT_EQ(attention.head_dim, 128U);
  EXPECT_EQ(attention.kv_heads, 8U);
  const auto scan = first_part<SelectiveScanSpec>(config);
  EXPECT_EQ(scan.inner, 8192U);
  EXPECT_EQ(scan.step_rank, 256U);
  EXPECT_EQ(scan.norms, ScanNorms::kWeighted);
  const auto experts = first_part<MoeSpec>(config);
  EXPECT_EQ(experts.experts, 16U);
  EXPECT_EQ(experts.chosen, 2U);
  EXPECT_EQ(experts.intermediate, 14336U);
  EXPECT_FALSE(experts.normalized);
  EXPECT_FALSE(experts.has_shared());
}

TEST(ScanConfig, AJambaOfOneExpertHasNone) {
  const ModelConfig config = read_scan_config(with(kJamba, R"("num_experts": 1)"));
  EXPECT_TRUE(parts_of<MoeSpec>(config.layers).empty());
  EXPECT_EQ(parts_of<SwiGluSpec>(config.layers).size(), 32U);
}

TEST(ScanConfig, WhatIsRefusedIsNamed) {
  EXPECT_LOAD_ERROR(read_scan_config(with(kMamba130m, R"("hidden_act": "gelu")")),
                    "hidden_act: the activation 'gelu' is not known");
  EXPECT_LOAD_ERROR(read_scan_config(with(kMamba130m, R"("time_step_rank": "many")")),
                    "time_step_rank: expected a number or 'auto', found 'many'");
  EXPECT_LOAD_ERROR(read_scan_config(with(kMamba130m, R"("state_size": 0)")), "state_size");
  EXPECT_LOAD_ERROR(read_scan_config(with(kJamba, R"("sliding_window": 4096)")),
                    "sliding_window: sliding windows are not supported");
  EXPECT_LOAD_ERROR(read_scan_config(with(kJamba, R"("attn_layer_offset": 8)")),
                    "attn_layer_offset: 8 is not below attn_layer_period, which is 8");
  EXPECT_LOAD_ERROR(read_scan_config(with(kJamba, R"("num_experts_per_tok": 17)")),
                    "num_experts_per_tok: 17 is more than num_experts, which is 16");
  EXPECT_LOAD_ERROR(read_scan_config(with(kJamba, R"("mamba_expand": 0.0001)")), "mamba_expand");
}

}  // namespace
}  // namespace reprise::models
