// config.json and generation_config.json: a configuration that was read describes a model that can be built.
#include <cmath>

#include "base/check.h"
#include "models/arch/config.h"
#include "models/arch/config_finish.h"
#include "models/arch/tensor_table.h"
#include "models/files/json_place.h"
#include "models/files/load_error.h"
#include "tests/fuzz/targets.h"
#include "tests/models/tiny_model.h"

namespace reprise::fuzz {
namespace {

using models::JsonPlace;
using models::ModelConfig;

void check_attention(const models::AttentionConfig& attention) {
  REPRISE_CHECK(attention.heads > 0 && attention.kv_heads > 0 && attention.head_dim > 0, "attention");
  REPRISE_CHECK(attention.heads == attention.kv_heads * attention.group, "group");
  REPRISE_CHECK(attention.q_size == attention.heads * attention.head_dim, "q_size");
  REPRISE_CHECK(attention.kv_size == attention.kv_heads * attention.head_dim, "kv_size");
}

void check_rope(const models::RopeConfig& rope, std::size_t head_dim) {
  REPRISE_CHECK(rope.dimension <= head_dim && rope.dimension % 2 == 0, "rope dimension");
  REPRISE_CHECK(rope.inv_freq.size() == rope.dimension / 2, "inv_freq");
  for (const float frequency : rope.inv_freq) REPRISE_CHECK(std::isfinite(frequency), "inv_freq");
  REPRISE_CHECK(std::isfinite(rope.attention_factor), "attention_factor");
}

void check_config(const ModelConfig& config) {
  REPRISE_CHECK(config.hidden > 0 && config.vocab > 0 && config.intermediate > 0, "sizes");
  REPRISE_CHECK(config.context_length > 0, "context_length");
  REPRISE_CHECK(config.layers > 0 && config.layers == config.layer_types.size(), "layers");
  REPRISE_CHECK(config.attention_layers + config.linear_layers == config.layers, "layers of each type");
  REPRISE_CHECK(std::isfinite(config.rms_eps) && config.rms_eps >= 0, "rms_eps");
  check_attention(config.attention);
  check_rope(config.rope, config.attention.head_dim);
  if (config.linear_layers > 0) {
    REPRISE_CHECK(config.linear.value_heads == config.linear.key_heads * config.linear.group, "linear group");
    REPRISE_CHECK(config.linear.conv_kernel > 0, "conv_kernel");
  }
  for (const std::int32_t id : config.tokens.eos) {
    REPRISE_CHECK(id >= 0 && static_cast<std::size_t>(id) < config.vocab, "eos");
  }
  // The list of tensors is as long as the model is deep; a few layers show as much.
  if (config.layers <= 64) {
    for (const models::TensorSpec& tensor : models::text_tensors(config)) {
      for (const auto size : tensor.shape) REPRISE_CHECK(size > 0, "a tensor without a size");
    }
  }
}

void read_config(std::string_view config, const std::string_view* generation) {
  try {
    const JsonPlace json = JsonPlace::parse(config, "config.json");
    if (generation == nullptr) return check_config(ModelConfig::from_hf(json));
    const JsonPlace other = JsonPlace::parse(*generation, "generation_config.json");
    check_config(ModelConfig::from_hf(json, &other));
  } catch (const models::LoadError& error) {
    REPRISE_CHECK(!error.file().empty() && !error.reason().empty(), "a refusal without a reason");
  }
}

}  // namespace

void fuzz_config(std::string_view input) {
  read_config(input, nullptr);
}

void fuzz_generation_config(std::string_view input) {
  static const std::string kConfig = models::test::TinyModel({.type = "llama"}).config_json();
  read_config(kConfig, &input);
}

}  // namespace reprise::fuzz
