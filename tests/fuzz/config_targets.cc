// config.json and generation_config.json: an accepted configuration describes a model that can be built. Also
// its quantization_config, over files with matrices of each scheme.
#include <cmath>
#include <set>

#include "base/check.h"
#include "models/arch/config.h"
#include "models/files/json_location.h"
#include "models/files/load_error.h"
#include "models/files/quant_scheme.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/targets.h"
#include "tests/models/files/checkpoint_files.h"
#include "tests/models/files/loader_invariants.h"
#include "tests/models/tiny_model.h"

namespace reprise::fuzz {
namespace {

using models::JsonLocation;
using models::ModelConfig;
using models::test::fault_of;

void check_attention(const models::AttentionSpec& attention) {
  REPRISE_CHECK(attention.heads > 0 && attention.kv_heads > 0 && attention.head_dim > 0,
                "attention has no heads or a head size of 0");
  REPRISE_CHECK(attention.heads == attention.kv_heads * attention.group(),
                "attention's query heads are not a multiple of its KV heads");
}

void check_gated_delta_net(const models::GatedDeltaNetSpec& net) {
  REPRISE_CHECK(net.value_heads == net.key_heads * net.group() && net.group() > 0,
                "the delta net's value heads are not a multiple of its key heads");
  REPRISE_CHECK(net.conv_kernel > 0, "conv_kernel is 0");
}

void check_rope(const models::RopeConfig& rope, std::size_t head_dim) {
  REPRISE_CHECK(rope.dimension <= head_dim && rope.dimension % 2 == 0,
                "the RoPE dimension is odd or larger than the head");
  REPRISE_CHECK(rope.inv_freq.size() == rope.dimension / 2,
                "inv_freq has the wrong size or a value that is not finite");
  for (const float frequency : rope.inv_freq)
    REPRISE_CHECK(std::isfinite(frequency), "inv_freq has the wrong size or a value that is not finite");
  REPRISE_CHECK(std::isfinite(rope.attention_factor), "attention_factor is not finite");
}

void check_norm(const models::NormSpec& norm) {
  REPRISE_CHECK(norm.size > 0 && std::isfinite(norm.kind.eps) && norm.kind.eps >= 0,
                "a norm has no size, or its eps is negative or not finite");
}

void check_config(const ModelConfig& config) {
  REPRISE_CHECK(config.hidden > 0 && config.vocab > 0, "the hidden size or the vocabulary is 0");
  REPRISE_CHECK(config.context_length > 0, "context_length is 0");
  REPRISE_CHECK(!config.layers.empty(), "the model has no layers");
  check_norm(config.final_norm);
  for (const models::LayerSpec& layer : config.layers) {
    REPRISE_CHECK(!layer.steps.empty(), "a layer without steps");
    for (const models::ResidualSpec& step : layer.steps) {
      REPRISE_CHECK(!step.parts.empty(), "a step without parts");
      if (step.norm) check_norm(*step.norm);
    }
  }
  std::set<const models::RopeConfig*> ropes;
  for (const auto* attention : models::parts_of<models::AttentionSpec>(config.layers)) {
    check_attention(*attention);
    if (attention->rope && ropes.insert(attention->rope.get()).second)
      check_rope(*attention->rope, attention->head_dim);
  }
  for (const auto* net : models::parts_of<models::GatedDeltaNetSpec>(config.layers))
    check_gated_delta_net(*net);
  for (const auto* scan : models::parts_of<models::SelectiveScanSpec>(config.layers)) {
    REPRISE_CHECK(scan->inner > 0 && scan->state_size > 0 && scan->step_rank > 0, "a scan of no size");
    REPRISE_CHECK(scan->conv_kernel > 0, "conv_kernel is 0");
  }
  for (const auto* moe : models::parts_of<models::MoeSpec>(config.layers)) {
    REPRISE_CHECK(moe->chosen >= 1 && moe->chosen <= moe->routed(),
                  "fewer experts than a token goes through");
    REPRISE_CHECK(moe->hidden == config.hidden && moe->intermediate >= 1, "experts of no size");
  }
  for (const auto* mla : models::parts_of<models::MlaSpec>(config.layers)) {
    REPRISE_CHECK(mla->heads > 0 && mla->rank > 0 && mla->key_dim() > 0 && mla->value_dim > 0,
                  "latent attention has a size of 0");
    if (mla->rope && ropes.insert(mla->rope.get()).second) check_rope(*mla->rope, mla->rotary_dim);
  }
  for (const auto* kda : models::parts_of<models::KdaSpec>(config.layers)) {
    REPRISE_CHECK(kda->size() > 0 && kda->conv_kernel > 0, "Kimi Delta Attention has a size of 0");
  }
  for (const auto* mlp : models::parts_of<models::SwiGluSpec>(config.layers)) {
    REPRISE_CHECK(mlp->intermediate > 0, "the feed-forward size is 0");
  }
  for (const std::int32_t id : config.tokens.eos) {
    REPRISE_CHECK(id >= 0 && static_cast<std::size_t>(id) < config.vocab,
                  "an end token is outside the vocabulary");
  }
  for (const models::TensorSpec& tensor : config.tensors) {
    for (const auto size : tensor.shape) REPRISE_CHECK(size > 0, "a tensor without a size");
  }
}

template <class Read>
bool is_read(Read read) {
  try {
    read();
    return true;
  } catch (const models::LoadError& error) {
    REPRISE_CHECK(!error.file().empty() && !error.reason().empty(), "a refusal without a reason");
    return false;
  }
}

}  // namespace

bool fuzz_config(std::string_view input) {
  static const models::test::TinyModel kModel({.type = "qwen3_5_text"});
  static const auto kWeights = scratch_file("config/model.safetensors", kModel.safetensors().bytes());
  const auto folder = scratch_file("config/config.json", input).parent_path();
  is_read([&] {
    REPRISE_CHECK(fault_of(models::ModelFiles::open(folder)).empty(),
                  "the opened model files break an invariant of the loader");
  });
  return is_read([&] { check_config(ModelConfig::from_hf(JsonLocation::parse(input, "config.json"))); });
}

bool fuzz_generation_config(std::string_view input) {
  static const std::string kConfig = models::test::TinyModel({.type = "llama"}).config_json();
  return is_read([&] {
    const JsonLocation other = JsonLocation::parse(input, "generation_config.json");
    check_config(ModelConfig::from_hf(JsonLocation::parse(kConfig, "config.json"), &other));
  });
}

/// The files hold one matrix each in AWQ, GPTQ, compressed-tensors and FP8 form. Every scheme refuses them at
/// some point, but only after it was read and the tensors of one matrix were combined.
bool fuzz_quantization_config(std::string_view input) {
  static const models::test::TinyModel kModel({.type = "llama", .hidden = 64, .layers = 1});
  static const auto kWeights = [] {
    models::test::SafetensorsWriter out;
    const auto zeros = [](std::size_t bytes) { return std::string(bytes, '\0'); };
    const auto add = [&](const char* matrix, const char* part, const char* type, std::uint64_t rows,
                         std::uint64_t columns, std::size_t element) {
      out.tensor("model.layers.0." + std::string(matrix) + part, type, {rows, columns},
                 zeros(rows * columns * element));
    };
    for (const auto& [name, tensor] : kModel.hf_tensors()) {
      const auto has = [&, &name = name](const char* part) { return name.find(part) != std::string::npos; };
      const bool plain = !has("q_proj") && !has("k_proj") && !has("v_proj") && !has("o_proj");
      if (!plain) continue;
      out.tensor(name == "lm_head.weight" ? name : "model." + name, "F32", tensor.shape,
                 models::test::raw_f32(tensor.values));
    }
    const auto rows_of = [](const char* matrix) {
      const std::string name = "layers.0.self_attn." + std::string(matrix) + ".weight";
      return kModel.tensors.at(name).shape;
    };
    const auto q = rows_of("q_proj");
    add("self_attn.q_proj", ".qweight", "I32", q[1], q[0] / 8, 4);
    add("self_attn.q_proj", ".qzeros", "I32", q[1] / 32, q[0] / 8, 4);
    add("self_attn.q_proj", ".scales", "F16", q[1] / 32, q[0], 2);
    const auto k = rows_of("k_proj");
    add("self_attn.k_proj", ".qweight", "I32", k[1] / 8, k[0], 4);
    add("self_attn.k_proj", ".qzeros", "I32", k[1] / 32, k[0] / 8, 4);
    add("self_attn.k_proj", ".scales", "F16", k[1] / 32, k[0], 2);
    const auto v = rows_of("v_proj");
    add("self_attn.v_proj", ".weight_packed", "I32", v[0], v[1] / 8, 4);
    add("self_attn.v_proj", ".weight_scale", "F16", v[0], v[1] / 32, 2);
    const auto o = rows_of("o_proj");
    add("self_attn.o_proj", ".weight", "F8_E4M3", o[0], o[1], 1);
    add("self_attn.o_proj", ".weight_scale_inv", "F32", (o[0] + 127) / 128, (o[1] + 127) / 128, 4);
    return scratch_file("quantised/model.safetensors", out.bytes());
  }();
  static const std::string kConfig = kModel.config_json();
  const std::size_t brace = kConfig.find('{');
  const std::string config = kConfig.substr(0, brace + 1) + "\"quantization_config\":" + std::string(input) +
                             "," + kConfig.substr(brace + 1);
  const auto folder = scratch_file("quantised/config.json", config).parent_path();
  is_read([&] {
    REPRISE_CHECK(fault_of(models::ModelFiles::open(folder)).empty(),
                  "the opened model files break an invariant of the loader");
  });
  return is_read([&] {
    const auto scheme = models::QuantScheme::read(JsonLocation::parse(config, "config.json"));
    REPRISE_CHECK(!scheme || !scheme->name.empty(), "a scheme without a name");
    REPRISE_CHECK(!scheme || (scheme->tile_rows == 0) == (scheme->tile_columns == 0),
                  "a tile has rows or columns of 0, and not both");
  });
}

}  // namespace reprise::fuzz
