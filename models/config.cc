#include "models/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "models/config_finish.h"
#include "traces/check.h"

namespace reprise::models {
namespace {

// The divisor that llama 3.1 gives a frequency: none for short waves, `factor` for those longer than the
// original context saw, and a ramp between.
double llama3_divisor(double inv_freq, const RopeConfig& rope) {
  const double context = static_cast<double>(rope.original_context);
  const double wave = 2 * std::numbers::pi / inv_freq;
  if (wave < context / rope.high_freq_factor) return 1;
  if (wave > context / rope.low_freq_factor) return rope.factor;
  const double smooth =
      (context / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return 1 / ((1 - smooth) / rope.factor + smooth);
}

std::vector<float> make_inv_freq(const RopeConfig& rope) {
  std::vector<float> out(rope.dimension / 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    double inv_freq =
        std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rope.dimension));
    switch (rope.scaling) {
      case RopeConfig::Scaling::kNone:
        break;
      case RopeConfig::Scaling::kLinear:
        inv_freq /= rope.factor;
        break;
      case RopeConfig::Scaling::kLlama3:
        inv_freq /= llama3_divisor(inv_freq, rope);
        break;
      case RopeConfig::Scaling::kTable:
        inv_freq /= rope.table[i];
        break;
    }
    out[i] = static_cast<float>(inv_freq);
  }
  return out;
}

void check_rope(const RopeConfig& rope, const AttentionConfig& attention, const FieldNames& names,
                const Fail& fail) {
  if (rope.dimension == 0 || rope.dimension % 2 != 0 || rope.dimension > attention.head_dim) {
    fail(names.rope_dimension, std::to_string(rope.dimension) + " rotated elements do not suit heads of " +
                                   std::to_string(attention.head_dim));
  }
  if (!(rope.theta > 1) || !std::isfinite(rope.theta)) fail(names.rope_theta, "must be greater than 1");
  const bool scaled =
      rope.scaling == RopeConfig::Scaling::kLinear || rope.scaling == RopeConfig::Scaling::kLlama3;
  if (scaled && !(rope.factor >= 1 && rope.factor <= 1e6)) fail(names.rope_factor, "must lie in 1 to 1e6");
  if (rope.scaling == RopeConfig::Scaling::kLlama3 &&
      !(rope.original_context > 0 && rope.low_freq_factor > 0 &&
        rope.high_freq_factor > rope.low_freq_factor && std::isfinite(rope.high_freq_factor))) {
    fail(names.rope_factor,
         "llama3 scaling needs an original context and 0 < low_freq_factor < high_freq_factor");
  }
  if (rope.scaling == RopeConfig::Scaling::kTable) {
    if (rope.table.size() != rope.dimension / 2) {
      fail(names.rope_factor, std::to_string(rope.table.size()) + " rope factors for " +
                                  std::to_string(rope.dimension / 2) + " frequencies");
    }
    for (float divisor : rope.table) {
      if (!(divisor > 0) || !std::isfinite(divisor)) fail(names.rope_factor, "a rope factor is not positive");
    }
  }
  if (!rope.mrope_section.empty()) {
    const std::size_t pairs =
        std::accumulate(rope.mrope_section.begin(), rope.mrope_section.end(), std::size_t{0});
    if (rope.mrope_section.size() != 3 || pairs != rope.dimension / 2) {
      fail(names.mrope_section, "must be three numbers that add up to " + std::to_string(rope.dimension / 2));
    }
  }
}

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
  check_rope(config.rope, config.attention, names, fail);
  config.rope.inv_freq = make_inv_freq(config.rope);

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
