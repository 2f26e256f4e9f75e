#include "models/arch/config.h"

#include <algorithm>

#include "base/check.h"
#include "models/arch/config_finish.h"

namespace reprise::models {
namespace {

void finish_attention(AttentionConfig& attention, const FieldNames& names, const Fail& fail) {
  if (attention.heads % attention.kv_heads != 0) {
    fail(names.kv_heads, std::to_string(attention.kv_heads) + " does not divide " + std::string(names.heads) +
                             ", which is " + std::to_string(attention.heads));
  }
  attention.group = attention.heads / attention.kv_heads;
  attention.q_size = attention.heads * attention.head_dim;
  attention.kv_size = attention.kv_heads * attention.head_dim;
  attention.q_proj_rows = attention.output_gate ? 2 * attention.q_size : attention.q_size;
}

void finish_linear(LinearAttentionConfig& linear, const FieldNames& names, const Fail& fail) {
  if (linear.value_heads % linear.key_heads != 0) {
    fail(names.linear_value_heads, std::to_string(linear.value_heads) + " is not a multiple of " +
                                       std::string(names.linear_key_heads) + ", which is " +
                                       std::to_string(linear.key_heads));
  }
  linear.group = linear.value_heads / linear.key_heads;
  linear.key_size = linear.key_heads * linear.key_head_dim;
  linear.value_size = linear.value_heads * linear.value_head_dim;
  linear.conv_channels = 2 * linear.key_size + linear.value_size;
  linear.state_size = linear.value_heads * linear.key_head_dim * linear.value_head_dim;
  linear.conv_state_size = linear.conv_channels * (linear.conv_kernel - 1);
}

}  // namespace

std::string_view name_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return "llama";
    case Architecture::kQwen3:
      return "qwen3";
    case Architecture::kQwen35:
      return "qwen3_5_text";
  }
  return "?";
}

void finish(ModelConfig& config, const FieldNames& names, const Fail& fail) {
  REPRISE_CHECK(config.layer_types.size() == config.layers, "a reader gives every layer its type");
  if (!(config.rms_eps > 0 && config.rms_eps < 1)) fail(names.rms_eps, "must lie between 0 and 1");
  finish_attention(config.attention, names, fail);
  finish_rope(config.rope, config.attention.head_dim, [&](RopeField field, const std::string& reason) {
    switch (field) {
      case RopeField::kTheta:
        return fail(names.rope_theta, reason);
      case RopeField::kDimension:
        return fail(names.rope_dimension, reason);
      case RopeField::kSection:
        return fail(names.mrope_section, reason);
      case RopeField::kScaling:
        return fail(names.rope_scaling, reason);
    }
  });

  const auto count = [&](LayerType kind) {
    return static_cast<std::size_t>(std::count(config.layer_types.begin(), config.layer_types.end(), kind));
  };
  config.attention_layers = count(LayerType::kFullAttention);
  config.linear_layers = count(LayerType::kLinearAttention);
  if (config.linear_layers > 0) {
    finish_linear(config.linear, names, fail);
  } else {
    config.linear = {};
  }
}

std::vector<LayerType> layers_by_interval(std::size_t layers, std::size_t interval) {
  std::vector<LayerType> out(layers, LayerType::kLinearAttention);
  for (std::size_t i = interval; i <= layers; i += interval) out[i - 1] = LayerType::kFullAttention;
  return out;
}

std::optional<std::int32_t> token_id(std::int64_t value, std::size_t vocab, std::string_view field,
                                     const Fail& fail) {
  if (value == -1) return std::nullopt;
  if (value < 0 || static_cast<std::uint64_t>(value) >= vocab) {
    fail(field, "token " + std::to_string(value) + " is not in a vocabulary of " + std::to_string(vocab));
  }
  return static_cast<std::int32_t>(value);
}

}  // namespace reprise::models
