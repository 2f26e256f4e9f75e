// Reads Hugging Face's config.json and generation_config.json.

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/arch/config.h"
#include "models/arch/config_finish.h"
#include "models/files/json_place.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

constexpr FieldNames kNames = {
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .head_dim = "head_dim",
    .rope_dimension = "partial_rotary_factor",
    .rope_theta = "rope_theta",
    .rope_scaling = "rope_scaling",
    .mrope_section = "mrope_section",
    .rms_eps = "rms_norm_eps",
    .linear_key_heads = "linear_num_key_heads",
    .linear_value_heads = "linear_num_value_heads",
    .vocab = "vocab_size",
};

// A count that must be there, from 1 to `most`.
std::size_t count(const JsonPlace& json, std::int64_t most) {
  const std::int64_t value = json.integer();
  if (value < 1 || value > most) {
    json.fail(std::to_string(value) + " is out of range: 1 to " + std::to_string(most));
  }
  return static_cast<std::size_t>(value);
}

std::size_t count(const JsonPlace& object, std::string_view key, std::int64_t most) {
  return count(object.at(key), most);
}

std::size_t count_or(const JsonPlace& object, std::string_view key, std::int64_t most, std::size_t fallback) {
  const std::optional<JsonPlace> found = object.find(key);
  return found ? count(*found, most) : fallback;
}

Architecture architecture_of(const JsonPlace& text) {
  const JsonPlace type = text.at("model_type");
  if (type.text() == "llama") return Architecture::kLlama;
  if (type.text() == "qwen3") return Architecture::kQwen3;
  if (type.text() == "qwen3_5_text" || type.text() == "qwen3_5") return Architecture::kQwen35;
  type.fail("unknown architecture '" + type.text() + "'; known are llama, qwen3, qwen3_5, qwen3_5_text");
}

// The part that describes the text model: the whole, or `text_config` of a multimodal one.
JsonPlace text_part(const JsonPlace& config) {
  if (config.text_or("model_type", "") == "qwen3_5") return config.at("text_config");
  return config;
}

std::size_t head_dim(const JsonPlace& text, Architecture architecture, std::size_t hidden,
                     std::size_t heads) {
  if (const std::optional<JsonPlace> given = text.find("head_dim")) return count(*given, kLargestHeadDim);
  switch (architecture) {
    case Architecture::kQwen3:
      return 128;
    case Architecture::kQwen35:
      return 256;
    case Architecture::kLlama:
      break;
  }
  if (hidden % heads != 0) text.at("num_attention_heads").fail("does not divide hidden_size");
  return hidden / heads;
}

LayerType layer_type(const JsonPlace& word) {
  if (word.text() == "full_attention") return LayerType::kFullAttention;
  if (word.text() == "linear_attention") return LayerType::kLinearAttention;
  word.fail("unknown layer type '" + word.text() + "'");
}

std::vector<LayerType> read_layer_types(const JsonPlace& text, Architecture architecture,
                                        std::size_t layers) {
  const bool hybrid = architecture == Architecture::kQwen35;
  const std::optional<JsonPlace> words = text.find("layer_types");
  if (!words) {
    if (!hybrid) return std::vector<LayerType>(layers, LayerType::kFullAttention);
    return layers_by_interval(layers, count_or(text, "full_attention_interval", kMostLayers, 4));
  }
  if (words->size() != layers) {
    words->fail("has " + std::to_string(words->size()) + " entries for " + std::to_string(layers) +
                " layers");
  }
  std::vector<LayerType> out;
  for (std::size_t i = 0; i < layers; ++i) {
    out.push_back(layer_type(words->at(i)));
    if (!hybrid && out.back() != LayerType::kFullAttention) {
      words->at(i).fail("this architecture has no linear attention");
    }
  }
  return out;
}

void read_yarn(const JsonPlace& rope, RopeConfig& out) {
  out.scaling = RopeConfig::Scaling::kYarn;
  out.beta_fast = rope.number_or("beta_fast", 32);
  out.beta_slow = rope.number_or("beta_slow", 1);
  out.truncate = rope.boolean_or("truncate", true);
  double attention = yarn_attention_factor(out.factor);
  const double mscale = rope.number_or("mscale", 0);
  const double mscale_all = rope.number_or("mscale_all_dim", 0);
  if (mscale != 0 && mscale_all != 0) {
    attention = yarn_attention_factor(out.factor, mscale) / yarn_attention_factor(out.factor, mscale_all);
  }
  out.attention_factor = static_cast<float>(rope.number_or("attention_factor", attention));
}

void read_rope_scaling(const JsonPlace& rope, RopeConfig& out, std::size_t context) {
  const std::string type = rope.text_or("rope_type", rope.text_or("type", "default"));
  // "dynamic" changes the frequencies only past the context length, where we do not go.
  if (type == "default" || type == "mrope" || type == "dynamic") return;
  if (type != "linear" && type != "llama3" && type != "yarn") {
    rope.fail("the rope type '" + type + "' is not known; known are default, linear, dynamic, llama3, yarn");
  }
  out.factor = rope.at("factor").number();
  if (type == "linear") {
    out.scaling = RopeConfig::Scaling::kLinear;
    return;
  }
  out.original_context = count_or(rope, "original_max_position_embeddings", kLongestContext, context);
  if (type == "yarn") return read_yarn(rope, out);
  out.scaling = RopeConfig::Scaling::kLlama3;
  out.low_freq_factor = rope.at("low_freq_factor").number();
  out.high_freq_factor = rope.at("high_freq_factor").number();
}

// Newer configs have everything in `rope_parameters`, older ones `rope_theta` and `partial_rotary_factor`
// beside an optional `rope_scaling`.
RopeConfig read_rope(const JsonPlace& text, Architecture architecture, std::size_t head_dim,
                     std::size_t context) {
  std::optional<JsonPlace> rope = text.find("rope_parameters");
  if (!rope) rope = text.find("rope_scaling");
  if (rope) {
    if (std::optional<JsonPlace> inner = rope->find("full_attention")) rope = std::move(inner);
  }
  const bool hybrid = architecture == Architecture::kQwen35;
  const auto number = [&](std::string_view key, double fallback) {
    return rope && rope->has(key) ? rope->at(key).number() : text.number_or(key, fallback);
  };
  RopeConfig out;
  out.theta = number("rope_theta", 10000);
  const double part = number("partial_rotary_factor", hybrid ? 0.25 : 1.0);
  if (!(part > 0 && part <= 1)) text.fail("partial_rotary_factor must lie in 0 to 1");
  out.dimension = static_cast<std::size_t>(static_cast<double>(head_dim) * part);
  if (rope) read_rope_scaling(*rope, out, context);
  if (!hybrid) return out;
  out.mrope_section = default_mrope_section(out.dimension);
  out.mrope_interleaved = true;
  if (const auto section = rope ? rope->find("mrope_section") : std::nullopt) {
    out.mrope_section.clear();
    for (std::size_t i = 0; i < section->size(); ++i) {
      const std::int64_t pairs = section->at(i).integer();
      if (pairs < 0 || pairs > kLargestHeadDim) section->at(i).fail("is out of range");
      out.mrope_section.push_back(static_cast<std::size_t>(pairs));
    }
  }
  return out;
}

LinearAttentionConfig read_linear(const JsonPlace& text) {
  LinearAttentionConfig out;
  out.key_heads = count(text, "linear_num_key_heads", kMostHeads);
  out.value_heads = count(text, "linear_num_value_heads", kMostHeads);
  out.key_head_dim = count(text, "linear_key_head_dim", kLargestHeadDim);
  out.value_head_dim = count(text, "linear_value_head_dim", kLargestHeadDim);
  out.conv_kernel = count(text, "linear_conv_kernel_dim", kLargestConvKernel);
  return out;
}

// What would change the results if it were ignored.
void refuse_unsupported(const JsonPlace& config, const JsonPlace& text) {
  for (const JsonPlace& part : {config, text}) {
    if (const auto quantization = part.find("quantization_config")) {
      quantization->fail("quantised checkpoints (" + quantization->text_or("quant_method", "?") +
                         ") are not read in this format");
    }
  }
  if (const auto act = text.find("hidden_act"); act && act->text() != "silu" && act->text() != "swish") {
    act->fail("the activation '" + act->text() + "' is not known; known is silu");
  }
  if (text.boolean_or("use_sliding_window", false)) {
    text.at("use_sliding_window").fail("sliding windows are not supported");
  }
}

std::vector<std::int32_t> ids(const JsonPlace& json, std::size_t vocab) {
  std::vector<std::int32_t> out;
  const Fail fail = [&](std::string_view, const std::string& reason) { json.fail(reason); };
  const auto add = [&](std::int64_t value) {
    if (const auto id = token_id(value, vocab, "", fail)) out.push_back(*id);
  };
  if (json.is(JsonPlace::Kind::kArray)) {
    for (std::int64_t value : json.integers()) add(value);
  } else {
    add(json.integer());
  }
  return out;
}

// The first of the sources that speaks of the token decides.
TokenIds read_tokens(const std::vector<JsonPlace>& sources, std::size_t vocab) {
  TokenIds out;
  const auto find = [&](std::string_view key) -> std::optional<JsonPlace> {
    for (const JsonPlace& source : sources) {
      if (std::optional<JsonPlace> found = source.find(key)) return found;
    }
    return std::nullopt;
  };
  if (const auto eos = find("eos_token_id")) out.eos = ids(*eos, vocab);
  if (const auto bos = find("bos_token_id")) {
    const std::vector<std::int32_t> all = ids(*bos, vocab);
    if (!all.empty()) out.bos = all.front();
  }
  if (const auto pad = find("pad_token_id")) {
    // Nothing is ever padded, so a pad token outside the vocabulary does no harm.
    const std::int64_t id = pad->is(JsonPlace::Kind::kInt) ? pad->integer() : -1;
    if (id >= 0 && static_cast<std::uint64_t>(id) < vocab) out.pad = static_cast<std::int32_t>(id);
  }
  return out;
}

std::optional<double> number_within(const JsonPlace& object, std::string_view key, double least,
                                    double most) {
  const std::optional<JsonPlace> found = object.find(key);
  if (!found) return std::nullopt;
  const double value = found->number();
  if (!(value >= least && value <= most)) found->fail("is out of range");
  return value;
}

SamplingWishes read_sampling(const JsonPlace& generation) {
  SamplingWishes out;
  if (const auto found = generation.find("top_k")) {
    if (found->integer() < -1) found->fail("is out of range");
    out.top_k = std::max<std::int64_t>(found->integer(), 0);  // 0 and -1 both mean: no limit
  }
  out.temperature = number_within(generation, "temperature", 0, 1e6);
  if (!generation.boolean_or("do_sample", true)) out.temperature = 0;
  out.top_p = number_within(generation, "top_p", 0, 1);
  out.min_p = number_within(generation, "min_p", 0, 1);
  out.repetition_penalty = number_within(generation, "repetition_penalty", 0, 1e6);
  return out;
}

}  // namespace

ModelConfig ModelConfig::from_hf(const JsonPlace& config, const JsonPlace* generation) {
  const JsonPlace text = text_part(config);
  ModelConfig out;
  out.architecture = architecture_of(text.has("model_type") ? text : config);
  const bool hybrid = out.architecture == Architecture::kQwen35;
  refuse_unsupported(config, text);

  out.hidden = count(text, "hidden_size", kLargestSize);
  out.layers = count(text, "num_hidden_layers", kMostLayers);
  out.vocab = count(text, "vocab_size", kLargestVocab);
  out.intermediate = count(text, "intermediate_size", kLargestSize);
  out.context_length = count(text, "max_position_embeddings", kLongestContext);
  out.rms_eps = static_cast<float>(text.number_or("rms_norm_eps", 1e-6));
  out.norm_offset = hybrid ? 1.0f : 0.0f;
  out.tie_word_embeddings =
      config.boolean_or("tie_word_embeddings", text.boolean_or("tie_word_embeddings", false));
  out.mlp_bias = text.boolean_or("mlp_bias", false);

  out.attention.heads = count(text, "num_attention_heads", kMostHeads);
  out.attention.kv_heads = count_or(text, "num_key_value_heads", kMostHeads, out.attention.heads);
  out.attention.head_dim = head_dim(text, out.architecture, out.hidden, out.attention.heads);
  out.attention.qk_norm = out.architecture != Architecture::kLlama;
  out.attention.output_gate = hybrid && text.boolean_or("attn_output_gate", true);
  out.attention.bias = text.boolean_or("attention_bias", false);
  out.rope = read_rope(text, out.architecture, out.attention.head_dim, out.context_length);
  out.layer_types = read_layer_types(text, out.architecture, out.layers);
  if (hybrid) out.linear = read_linear(text);

  finish(out, kNames, [&](std::string_view field, const std::string& reason) {
    const std::string prefix = text.path().empty() ? "" : text.path() + ".";
    throw LoadError(text.file(), prefix + std::string(field), reason);
  });

  std::vector<JsonPlace> sources;
  if (generation != nullptr) sources.push_back(*generation);
  sources.push_back(config);
  sources.push_back(text);
  out.tokens = read_tokens(sources, out.vocab);
  if (generation != nullptr) out.sampling = read_sampling(*generation);
  return out;
}

}  // namespace reprise::models
