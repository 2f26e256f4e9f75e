#include "tools/lab/random_model/write.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/arch/config.h"
#include "models/files/json_location.h"
#include "tools/lab/random_model/new_file.h"
#include "tools/lab/random_model/random_blocks.h"

namespace reprise::tools {

const std::vector<NamedShape>& named_shapes() {
  static const std::vector<NamedShape> kShapes = [] {
    const auto qwen3_5 = [](std::size_t layers, std::size_t hidden, std::size_t intermediate,
                            std::size_t heads, std::size_t kv_heads, std::size_t value_heads) {
      return RandomShape{.type = "qwen3_5_text",
                         .layers = layers,
                         .hidden = hidden,
                         .intermediate = intermediate,
                         .heads = heads,
                         .kv_heads = kv_heads,
                         .head_dim = 256,
                         .vocab = 248320,
                         .tied = true,
                         .key_heads = 16,
                         .value_heads = value_heads,
                         .key_head_dim = 128,
                         .value_head_dim = 128};
    };
    const auto attention = [](std::string type, std::size_t layers, std::size_t hidden,
                              std::size_t intermediate, std::size_t heads, std::size_t head_dim,
                              std::size_t vocab) {
      return RandomShape{.type = std::move(type),
                         .layers = layers,
                         .hidden = hidden,
                         .intermediate = intermediate,
                         .heads = heads,
                         .kv_heads = heads / 2,
                         .head_dim = head_dim,
                         .vocab = vocab,
                         .tied = true,
                         .context = 40960};
    };
    RandomShape tiny = qwen3_5(4, 64, 160, 4, 2, 4);
    tiny.head_dim = 32;
    tiny.vocab = 512;
    tiny.tied = false;
    tiny.key_heads = 2;
    tiny.key_head_dim = tiny.value_head_dim = 16;
    RandomShape nine = qwen3_5(32, 4096, 12288, 16, 4, 32);
    nine.tied = false;
    RandomShape large = qwen3_5(64, 5120, 17408, 24, 4, 48);
    large.tied = false;
    const auto mixture = [&](RandomShape shape, std::size_t experts, std::size_t per_token,
                             std::size_t size) {
      shape.type = "qwen3_5_moe_text";
      shape.tied = false;
      shape.experts = experts;
      shape.experts_per_token = per_token;
      shape.expert_intermediate = shape.shared_intermediate = size;
      return shape;
    };
    RandomShape next_tiny = mixture(tiny, 8, 2, 32);
    next_tiny.type = "qwen3_next";
    RandomShape next = mixture(qwen3_5(48, 2048, 0, 16, 2, 32), 512, 10, 512);
    next.type = "qwen3_next";
    next.vocab = 151936;
    return std::vector<NamedShape>{{"qwen3_5-0.8b", qwen3_5(24, 1024, 3584, 8, 2, 16)},
                                   {"qwen3_5-2b", qwen3_5(24, 2048, 6144, 8, 2, 16)},
                                   {"qwen3_5-4b", qwen3_5(32, 2560, 9216, 16, 4, 32)},
                                   {"qwen3_5-9b", nine},
                                   {"qwen3_5-27b", large},
                                   {"qwen3_5-tiny", tiny},
                                   {"qwen3_5-35b-a3b", mixture(qwen3_5(40, 2048, 0, 16, 2, 32), 256, 8, 512)},
                                   {"qwen3_5_moe-tiny", mixture(tiny, 8, 2, 32)},
                                   {"qwen3_next-80b-a3b", next},
                                   {"qwen3_next-tiny", next_tiny},
                                   {"qwen3-0.6b", attention("qwen3", 28, 1024, 3072, 16, 128, 151936)},
                                   {"qwen3-tiny", attention("qwen3", 3, 64, 160, 4, 32, 512)},
                                   {"llama-tiny", attention("llama", 3, 64, 160, 4, 16, 512)}};
  }();
  return kShapes;
}

const RandomShape* shape_named(std::string_view name) {
  for (const NamedShape& named : named_shapes()) {
    if (named.name == name) return &named.shape;
  }
  return nullptr;
}

std::string config_json(const RandomShape& shape) {
  std::string out = "{\n";
  const auto number = [&](const char* key, std::size_t value) {
    out += std::string("  \"") + key + "\": " + std::to_string(value) + ",\n";
  };
  number("hidden_size", shape.hidden);
  if (shape.experts == 0) {
    number("intermediate_size", shape.intermediate);
  } else {
    number("num_experts", shape.experts);
    number("num_experts_per_tok", shape.experts_per_token);
    number("moe_intermediate_size", shape.expert_intermediate);
    number("shared_expert_intermediate_size", shape.shared_intermediate);
  }
  number("num_hidden_layers", shape.layers);
  number("num_attention_heads", shape.heads);
  number("num_key_value_heads", shape.kv_heads);
  number("head_dim", shape.head_dim);
  number("vocab_size", shape.vocab);
  number("max_position_embeddings", shape.context);
  if (shape.is_hybrid()) {
    number("full_attention_interval", shape.attention_interval);
    number("linear_num_key_heads", shape.key_heads);
    number("linear_num_value_heads", shape.value_heads);
    number("linear_key_head_dim", shape.key_head_dim);
    number("linear_value_head_dim", shape.value_head_dim);
    number("linear_conv_kernel_dim", shape.conv_kernel);
    const std::vector<std::int32_t> sections = shape.rope_sections();  // a quarter of each head is rotated
    out += "  \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000000.0, ";
    out += "\"partial_rotary_factor\": 0.25, \"mrope_interleaved\": true, \"mrope_section\": [";
    out += std::to_string(sections[0]) + ", " + std::to_string(sections[1]) + ", " +
           std::to_string(sections[2]) + "]},\n";
  } else {
    out += "  \"rope_theta\": 1000000.0,\n";
  }
  out += "  \"hidden_act\": \"silu\",\n  \"rms_norm_eps\": 1e-06,\n  \"dtype\": \"bfloat16\",\n";
  out += std::string("  \"tie_word_embeddings\": ") + (shape.tied ? "true" : "false") + ",\n";
  return out + "  \"model_type\": \"" + shape.type + "\"\n}\n";
}

namespace {

using models::ModelConfig;
using models::TensorSpec;

std::uint64_t elements_of(const TensorSpec& spec) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : spec.shape) count *= size;
  return count;
}

/// Returns the tensors of the folder, with those stored as one merged.
std::vector<TensorSpec> specs_in_folder(const ModelConfig& config) {
  std::vector<TensorSpec> out;
  std::set<std::string> seen;
  for (const TensorSpec& spec : config.tensors) {
    TensorSpec stored = spec;
    if (!spec.hf.names.empty()) stored.name = spec.hf.names.front();
    if (spec.hf.piece) stored.shape = spec.hf.piece->of;
    if (seen.insert(stored.name).second) out.push_back(std::move(stored));
  }
  return out;
}

std::string stored_name(const TensorSpec& spec) {
  return spec.name == "lm_head.weight" ? spec.name : "model." + spec.name;
}

constexpr std::uint64_t kTile = 128;  // rows and columns of FP8 per scale

std::uint64_t tiles_of(const TensorSpec& spec) {
  return (spec.shape[0] + kTile - 1) / kTile * ((spec.shape[1] + kTile - 1) / kTile);
}
/// Returns whether an FP8 folder stores this matrix as FP8: matrices of layers, except small ones and
/// routers.
bool is_fp8(const TensorSpec& spec) {
  return spec.shape.size() == 2 && spec.shape[0] >= kTile && spec.shape[1] >= kTile &&
         spec.name.starts_with("layers.") && spec.name.ends_with(".weight") &&
         !spec.name.ends_with("mlp.gate.weight");
}

class Header {
 public:
  void add(const std::string& name, const char* type, const std::vector<std::uint64_t>& shape,
           std::uint64_t bytes) {
    if (bytes_ > 0) text_ += ',';
    text_ += '"' + name + R"(":{"dtype":")" + type + R"(","shape":[)";
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (i > 0) text_ += ',';
      text_ += std::to_string(shape[i]);
    }
    text_ += R"(],"data_offsets":[)" + std::to_string(bytes_) + ',' + std::to_string(bytes_ + bytes) + "]}";
    bytes_ += bytes;
  }
  std::string finish() {
    text_ += "}";
    text_.resize((text_.size() + 7) / 8 * 8, ' ');  // aligns the data
    return text_;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::string text_ = "{";
  std::uint64_t bytes_ = 0;
};

void write_tensor(NewFile& file, const TensorSpec& spec, const ModelConfig& config, std::uint64_t seed) {
  constexpr std::uint64_t kAtOnce = 1 << 19;
  Random random(seed, spec.name);
  const Draw draw = draw_for(spec, config);
  std::vector<std::uint16_t> values;
  for (std::uint64_t left = elements_of(spec); left > 0; left -= values.size()) {
    values.resize(std::min(left, kAtOnce));
    for (std::uint16_t& value : values) value = to_bf16(draw(random));
    file.write(values.data(), values.size() * sizeof(values[0]));
  }
}

void write_fp8(NewFile& file, const TensorSpec& spec, const ModelConfig& config, std::uint64_t seed) {
  Random random(seed, spec.name);
  const Draw draw = draw_for(spec, config);
  const std::uint64_t across = (spec.shape[1] + kTile - 1) / kTile;
  std::vector<float> scales(tiles_of(spec));
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i] = (1 + static_cast<float>(i % 7) / 8) / 512;
  }
  std::vector<std::uint8_t> row(spec.shape[1]);
  for (std::uint64_t i = 0; i < spec.shape[0]; ++i) {
    for (std::uint64_t k = 0; k < row.size(); ++k) {
      row[k] = to_e4m3(draw(random) / scales[i / kTile * across + k / kTile]);
    }
    file.write(row.data(), row.size());
  }
  file.write(scales.data(), scales.size() * sizeof(scales[0]));
}

std::string with_fp8(std::string config) {
  config.insert(
      config.find('{') + 1,
      R"("quantization_config":{"quant_method":"fp8","fmt":"e4m3","weight_block_size":[128,128]},)");
  return config;
}

}  // namespace

std::uint64_t write_random_model(const RandomShape& shape, std::uint64_t seed,
                                 const std::filesystem::path& folder, FolderType type) {
  const std::string text = type == FolderType::kFp8 ? with_fp8(config_json(shape)) : config_json(shape);
  const ModelConfig config = ModelConfig::from_hf(models::JsonLocation::parse(text, "config.json"));
  const std::vector<TensorSpec> specs = specs_in_folder(config);
  std::filesystem::create_directories(folder);

  NewFile weights(folder / "model.safetensors");
  NewFile description(folder / "config.json");
  description.write(text.data(), text.size());
  const auto in_fp8 = [&](const TensorSpec& spec) { return type == FolderType::kFp8 && is_fp8(spec); };
  Header tensors;
  for (const TensorSpec& spec : specs) {
    const std::string name = stored_name(spec);
    if (!in_fp8(spec)) {
      tensors.add(name, "BF16", spec.shape, 2 * elements_of(spec));
      continue;
    }
    tensors.add(name, "F8_E4M3", spec.shape, elements_of(spec));
    tensors.add(name + "_scale_inv", "F32",
                {(spec.shape[0] + kTile - 1) / kTile, (spec.shape[1] + kTile - 1) / kTile},
                tiles_of(spec) * sizeof(float));
  }
  const std::string header = tensors.finish();
  const std::uint64_t length = header.size();
  static_assert(std::endian::native == std::endian::little);
  weights.write(&length, sizeof(length));
  weights.write(header.data(), header.size());
  for (const TensorSpec& spec : specs) {
    (in_fp8(spec) ? write_fp8 : write_tensor)(weights, spec, config, seed);
  }
  description.finish();
  weights.finish();
  return tensors.bytes();
}

}  // namespace reprise::tools
