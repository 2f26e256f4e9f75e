// Reads the hyper-parameters that llama.cpp's converter writes into GGUF metadata, and the spellings of other
// converters where they are known: three rope sections instead of four, per-layer head counts with 0 for
// layers that have no attention.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "models/arch/config.h"
#include "models/arch/config_finish.h"
#include "models/files/gguf.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

constexpr FieldNames kNames = {
    .heads = "attention.head_count",
    .kv_heads = "attention.head_count_kv",
    .head_dim = "attention.key_length",
    .rope_dimension = "rope.dimension_count",
    .rope_theta = "rope.freq_base",
    .rope_scaling = "rope.scaling",
    .mrope_section = "rope.dimension_sections",
    .rms_eps = "attention.layer_norm_rms_epsilon",
    .linear_key_heads = "ssm.group_count",
    .linear_value_heads = "ssm.time_step_rank",
    .vocab = "vocab_size",
};

// The metadata under the prefix of one architecture ("qwen35.").
class Keys {
 public:
  Keys(const GgufMetadata& metadata, std::string_view prefix)
      : metadata_(metadata), prefix_(std::string(prefix) + ".") {}

  const GgufMetadata& metadata() const { return metadata_; }
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return metadata_.has(full(key)); }
  bool is_array(std::string_view key) const { return has(key) && metadata_.find(full(key))->is_array(); }

  std::size_t count(std::string_view key, std::int64_t most) const {
    return checked(key, metadata_.integer(full(key)), most);
  }

  std::size_t count_or(std::string_view key, std::int64_t most, std::size_t fallback) const {
    return has(key) ? count(key, most) : fallback;
  }

  // A number for all layers, or one for each in which all but 0 are equal.
  std::size_t uniform(std::string_view key, std::int64_t most) const {
    if (!is_array(key)) return count(key, most);
    std::set<std::int64_t> values;
    for (std::int64_t value : metadata_.integers(full(key))) {
      if (value != 0) values.insert(value);
    }
    if (values.size() != 1) fail(key, "layers that differ are not supported");
    return checked(key, *values.begin(), most);
  }

  [[noreturn]] void fail(std::string_view key, const std::string& reason) const {
    throw LoadError(metadata_.file(), full(key), reason);
  }

 private:
  std::size_t checked(std::string_view key, std::int64_t value, std::int64_t most) const {
    if (value < 1 || value > most) {
      fail(key, std::to_string(value) + " is out of range: 1 to " + std::to_string(most));
    }
    return static_cast<std::size_t>(value);
  }

  const GgufMetadata& metadata_;
  std::string prefix_;
};

Architecture architecture_of(const GgufMetadata& metadata, std::string_view name) {
  if (name == "llama") return Architecture::kLlama;
  if (name == "qwen3") return Architecture::kQwen3;
  if (name == "qwen35") return Architecture::kQwen35;
  throw LoadError(metadata.file(), "general.architecture",
                  "unknown architecture '" + std::string(name) + "'; known are llama, qwen3, qwen35");
}

// `attention.recurrent_layers`, or the layers without key-value heads, or every so many layers.
std::vector<LayerType> read_layer_types(const Keys& keys, Architecture architecture, std::size_t layers,
                                        std::size_t blocks) {
  if (architecture != Architecture::kQwen35) return std::vector<LayerType>(layers, LayerType::kFullAttention);
  const auto from_array = [&](std::string_view key, const auto& values, auto is_linear) {
    if (values.size() != layers && values.size() != blocks) {
      keys.fail(
          key, "has " + std::to_string(values.size()) + " entries for " + std::to_string(blocks) + " layers");
    }
    std::vector<LayerType> out;
    for (std::size_t i = 0; i < layers; ++i) {
      out.push_back(is_linear(values[i]) ? LayerType::kLinearAttention : LayerType::kFullAttention);
    }
    return out;
  };
  if (keys.is_array("attention.recurrent_layers")) {
    return from_array("attention.recurrent_layers",
                      keys.metadata().booleans(keys.full("attention.recurrent_layers")),
                      [](bool recurrent) { return recurrent; });
  }
  if (keys.is_array("attention.head_count_kv")) {
    return from_array("attention.head_count_kv",
                      keys.metadata().integers(keys.full("attention.head_count_kv")),
                      [](std::int64_t heads) { return heads == 0; });
  }
  return layers_by_interval(layers, keys.count_or("full_attention_interval", kMostLayers, 4));
}

std::vector<std::size_t> mrope_section(const Keys& keys, std::size_t dimension) {
  for (std::string_view key : {"rope.dimension_sections", "rope.mrope_section", "mrope_sections"}) {
    if (!keys.has(key)) continue;
    std::vector<std::size_t> out;
    for (std::int64_t pairs : keys.metadata().integers(keys.full(key))) {
      if (pairs < 0 || pairs > kLargestHeadDim || out.size() == 4) keys.fail(key, "is out of range");
      out.push_back(static_cast<std::size_t>(pairs));
    }
    if (out.size() == 4 && out.back() == 0) out.pop_back();
    return out;
  }
  return default_mrope_section(dimension);
}

void read_rope_factors(const Gguf& file, RopeConfig& rope) {
  const StoredTensor* tensor = file.tensors().find("rope_freqs.weight");
  if (tensor == nullptr) return;
  if (tensor->type != DType::kF32 || tensor->shape.size() != 1) {
    throw LoadError(file.path(), tensor->name, "expected a vector of F32");
  }
  if (rope.scaling == RopeConfig::Scaling::kYarn) {
    throw LoadError(file.path(), tensor->name, "rope factors and yarn exclude each other");
  }
  rope.table.resize(tensor->shape[0]);
  std::memcpy(rope.table.data(), tensor->bytes.data(), tensor->bytes.size());
  for (float& divisor : rope.table) divisor *= static_cast<float>(rope.factor);
  rope.scaling = RopeConfig::Scaling::kTable;
}

RopeConfig read_rope(const Gguf& file, const Keys& keys, Architecture architecture, std::size_t head_dim,
                     std::size_t context) {
  const GgufMetadata& metadata = keys.metadata();
  RopeConfig out;
  out.theta = metadata.number_or(keys.full("rope.freq_base"), 10000);
  out.dimension = keys.count_or("rope.dimension_count", kLargestHeadDim, head_dim);
  const std::string_view type = metadata.text_or(keys.full("rope.scaling.type"), "linear");
  const double factor = metadata.number_or(keys.full("rope.scaling.factor"),
                                           metadata.number_or(keys.full("rope.scale_linear"), 0));
  if (type == "linear") {
    if (factor != 0 && factor != 1) {  // both mean: none
      out.factor = factor;
      out.scaling = RopeConfig::Scaling::kLinear;
    }
  } else if (type == "yarn") {
    out.factor = factor;
    out.scaling = RopeConfig::Scaling::kYarn;
    out.original_context = keys.count_or("rope.scaling.original_context_length", kLongestContext, context);
    out.beta_fast = metadata.number_or(keys.full("rope.scaling.yarn_beta_fast"), 32);
    out.beta_slow = metadata.number_or(keys.full("rope.scaling.yarn_beta_slow"), 1);
    out.attention_factor = static_cast<float>(
        metadata.number_or(keys.full("rope.scaling.yarn_attn_factor"), yarn_attention_factor(factor)) *
        metadata.number_or(keys.full("rope.scaling.attn_factor"), 1));
  } else if (type != "none" && type != "default" && type != "mrope") {
    keys.fail("rope.scaling.type", std::string(type) + " is not known; known are none, linear, yarn");
  }
  read_rope_factors(file, out);
  if (architecture == Architecture::kQwen35) {
    out.mrope_section = mrope_section(keys, out.dimension);
    out.mrope_interleaved = true;
  }
  return out;
}

LinearAttentionConfig read_linear(const Keys& keys) {
  LinearAttentionConfig out;
  out.key_heads = keys.count("ssm.group_count", kMostHeads);
  out.value_heads = keys.count("ssm.time_step_rank", kMostHeads);
  out.key_head_dim = keys.count("ssm.state_size", kLargestHeadDim);
  const std::size_t inner = keys.count("ssm.inner_size", kMostHeads * kLargestHeadDim);
  if (inner % out.value_heads != 0 || inner / out.value_heads > kLargestHeadDim) {
    keys.fail("ssm.inner_size",
              std::to_string(inner) + " does not suit " + std::to_string(out.value_heads) + " heads");
  }
  out.value_head_dim = inner / out.value_heads;
  out.conv_kernel = keys.count("ssm.conv_kernel", kLargestConvKernel);
  return out;
}

TokenIds read_tokens(const GgufMetadata& metadata, std::size_t vocab) {
  const Fail fail = [&](std::string_view key, const std::string& reason) {
    throw LoadError(metadata.file(), key, reason);
  };
  const auto id = [&](std::string_view key) -> std::optional<std::int32_t> {
    if (!metadata.has(key)) return std::nullopt;
    return token_id(metadata.integer(key), vocab, key, fail);
  };
  TokenIds out;
  out.bos = id("tokenizer.ggml.bos_token_id");
  const std::int64_t pad = metadata.integer_or("tokenizer.ggml.padding_token_id", -1);
  if (pad >= 0 && static_cast<std::uint64_t>(pad) < vocab) out.pad = static_cast<std::int32_t>(pad);
  for (std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const std::optional<std::int32_t> end = id(key);
    if (end && std::find(out.eos.begin(), out.eos.end(), *end) == out.eos.end()) out.eos.push_back(*end);
  }
  return out;
}

SamplingWishes read_sampling(const GgufMetadata& metadata) {
  const auto number = [&](std::string_view key, double most) -> std::optional<double> {
    if (!metadata.has(key)) return std::nullopt;
    const double value = metadata.number(key);
    if (!(value >= 0 && value <= most)) throw LoadError(metadata.file(), key, "is out of range");
    return value;
  };
  SamplingWishes out;
  out.temperature = number("general.sampling.temp", 1e6);
  out.top_p = number("general.sampling.top_p", 1);
  out.min_p = number("general.sampling.min_p", 1);
  out.repetition_penalty = number("general.sampling.penalty_repeat", 1e6);
  if (metadata.has("general.sampling.top_k")) {
    out.top_k = std::max<std::int64_t>(metadata.integer("general.sampling.top_k"), 0);
  }
  return out;
}

}  // namespace

ModelConfig ModelConfig::from_gguf(const Gguf& file) {
  const GgufMetadata& metadata = file.metadata();
  const std::string_view name = metadata.text("general.architecture");
  ModelConfig out;
  out.architecture = architecture_of(metadata, name);
  const bool hybrid = out.architecture == Architecture::kQwen35;
  const Keys keys(metadata, name);
  if (metadata.integer_or(keys.full("expert_count"), 0) != 0) {
    keys.fail("expert_count", "experts are not supported in this architecture");
  }

  // Blocks for multi-token prediction stand behind the layers and are not ours.
  const std::size_t blocks = keys.count("block_count", kMostLayers);
  const std::int64_t prediction = metadata.integer_or(keys.full("nextn_predict_layers"), 0);
  if (prediction < 0 || static_cast<std::uint64_t>(prediction) >= blocks) {
    keys.fail("nextn_predict_layers", "leaves no layers");
  }
  out.layers = blocks - static_cast<std::size_t>(prediction);
  out.hidden = keys.count("embedding_length", kLargestSize);
  out.intermediate = keys.uniform("feed_forward_length", kLargestSize);
  out.context_length = keys.count("context_length", kLongestContext);
  out.rms_eps = static_cast<float>(metadata.number(keys.full("attention.layer_norm_rms_epsilon")));
  out.norm_offset = hybrid ? 1.0f : 0.0f;

  out.attention.heads = keys.uniform("attention.head_count", kMostHeads);
  out.attention.kv_heads = keys.has("attention.head_count_kv")
                               ? keys.uniform("attention.head_count_kv", kMostHeads)
                               : out.attention.heads;
  if (!keys.has("attention.key_length") && out.hidden % out.attention.heads != 0) {
    keys.fail("attention.head_count", "does not divide embedding_length");
  }
  out.attention.head_dim =
      keys.count_or("attention.key_length", kLargestHeadDim, out.hidden / out.attention.heads);
  if (keys.count_or("attention.value_length", kLargestHeadDim, out.attention.head_dim) !=
      out.attention.head_dim) {
    keys.fail("attention.value_length", "must be the same as attention.key_length");
  }
  out.attention.qk_norm = out.architecture != Architecture::kLlama;
  out.attention.output_gate = hybrid;
  out.rope = read_rope(file, keys, out.architecture, out.attention.head_dim, out.context_length);
  out.layer_types = read_layer_types(keys, out.architecture, out.layers, blocks);
  if (hybrid) out.linear = read_linear(keys);

  const TensorSource& tensors = file.tensors();
  const StoredTensor* embedding = tensors.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    throw LoadError(file.path(), "token_embd.weight", "is missing or no matrix");
  }
  if (embedding->shape[0] < 1 || embedding->shape[0] > static_cast<std::uint64_t>(kLargestVocab)) {
    throw LoadError(file.path(), "token_embd.weight", "has " + std::to_string(embedding->shape[0]) + " rows");
  }
  out.vocab = embedding->shape[0];
  out.tie_word_embeddings = tensors.find("output.weight") == nullptr;
  out.mlp_bias = tensors.find("blk.0.ffn_up.bias") != nullptr;
  const auto attention = std::find(out.layer_types.begin(), out.layer_types.end(), LayerType::kFullAttention);
  const std::string block = "blk." + std::to_string(attention - out.layer_types.begin());
  out.attention.bias = tensors.find(block + ".attn_q.bias") != nullptr;

  finish(out, kNames, [&](std::string_view field, const std::string& reason) { keys.fail(field, reason); });
  out.tokens = read_tokens(metadata, out.vocab);
  out.sampling = read_sampling(metadata);
  return out;
}

}  // namespace reprise::models
