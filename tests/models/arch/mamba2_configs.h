#pragma once
// Small configs of the Mamba-2 families with members a test adds, and random weights for them.

#include <random>
#include <string>

#include "models/files/json_location.h"
#include "tests/models/arch/naive_layers.h"

namespace reprise::models::test {

inline std::string with(std::string json, const std::string& extra) {
  return extra.empty() ? json : json.substr(0, json.rfind('}')) + ", " + extra + "}";
}

inline std::string mamba2(const std::string& extra = "") {
  return with(R"({"model_type": "mamba2", "hidden_size": 24, "vocab_size": 13, "num_hidden_layers": 2,
      "num_heads": 6, "head_dim": 8, "n_groups": 3, "state_size": 5, "conv_kernel": 4, "expand": 2,
      "layer_norm_epsilon": 1e-5})",
              extra);
}

inline std::string falcon_h1(const std::string& extra = "") {
  return with(R"({"model_type": "falcon_h1", "hidden_size": 24, "vocab_size": 13, "num_hidden_layers": 2,
      "max_position_embeddings": 512, "intermediate_size": 20, "rope_theta": 100.0, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 8, "mamba_d_ssm": 40, "mamba_n_heads": 4, "mamba_d_head": 10,
      "mamba_n_groups": 2, "mamba_d_state": 6, "mamba_d_conv": 3, "attention_in_multiplier": 1.1,
      "attention_out_multiplier": 0.9, "embedding_multiplier": 1.5, "key_multiplier": 0.8, "lm_head_multiplier": 0.7,
      "mlp_multipliers": [0.9, 0.8], "ssm_in_multiplier": 1.2, "ssm_out_multiplier": 0.8,
      "ssm_multipliers": [0.9, 0.8, 0.7, 1.1, 1.2]})",
              extra);
}

inline std::string nemotron_h(const std::string& extra) {
  return with(
      R"({"model_type": "nemotron_h", "hidden_size": 24, "vocab_size": 13, "max_position_embeddings": 512,
      "intermediate_size": 20, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "mamba_num_heads": 4, "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 6, "conv_kernel": 4})",
      extra);
}

inline std::string nemotron_h_moe(const std::string& extra) {
  return with(
      nemotron_h(R"("hybrid_override_pattern": "ME*E", "n_routed_experts": 8, "num_experts_per_tok": 3,
      "moe_intermediate_size": 12, "moe_shared_expert_intermediate_size": 10, "n_shared_experts": 1,
      "routed_scaling_factor": 2.5)"),
      extra);
}

inline ModelConfig read(const std::string& json) {
  return ModelConfig::from_hf(JsonLocation::parse(json, "config.json"));
}

inline Weights random_weights(const ModelConfig& config) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 0.4F);
  Weights out;
  for (const TensorSpec& tensor : config.tensors) {
    std::vector<float>& values = out[tensor.name];
    values.resize(element_count(tensor.shape).value());
    for (float& value : values) value = normal(random) + (tensor.name.ends_with("norm.weight") ? 1 : 0);
  }
  return out;
}

}  // namespace reprise::models::test
