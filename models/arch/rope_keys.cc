#include "models/arch/rope_keys.h"

#include <cstring>
#include <optional>
#include <utility>

#include "models/arch/config_source.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

constexpr Key kRopeTheta{"rope_theta", "rope.freq_base"};
constexpr Key kRopeScaling{"rope_scaling", "rope.scaling"};
constexpr Key kRopeSection{"mrope_section", "rope.dimension_sections"};

// GGUF keys, as llama.cpp's converter writes them and in known spellings of others.
constexpr Key kScalingType{"", "rope.scaling.type"};
constexpr Key kScalingFactor{"", "rope.scaling.factor"};
constexpr Key kScaleLinear{"", "rope.scale_linear"};
constexpr Key kOriginalContext{"", "rope.scaling.original_context_length"};
constexpr Key kYarnBetaFast{"", "rope.scaling.yarn_beta_fast"};
constexpr Key kYarnBetaSlow{"", "rope.scaling.yarn_beta_slow"};
constexpr Key kYarnAttentionFactor{"", "rope.scaling.yarn_attn_factor"};
constexpr Key kAttentionFactor{"", "rope.scaling.attn_factor"};

// Pairs per axis: three numbers, or four of which the last is 0.
std::vector<std::size_t> mrope_section(const GgufSource& gguf, std::size_t dimension) {
  for (const Key& key : {kRopeSection, Key{"", "rope.mrope_section"}, Key{"", "mrope_sections"}}) {
    if (!gguf.has(key)) continue;
    std::vector<std::size_t> out;
    for (std::int64_t pairs : gguf.metadata().integers(gguf.full(key))) {
      if (pairs < 0 || pairs > kMaxHeadDim || out.size() == 4) gguf.fail(key, "is out of range");
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

RopeConfig read_rope_gguf(const GgufSource& gguf, const RopeKeys& keys) {
  RopeConfig out;
  out.theta = gguf.number_or(kRopeTheta, 10000);
  out.dimension = gguf.count_or(kRopeDimension, kMaxHeadDim, keys.head_dim);
  const std::string_view type = gguf.metadata().text_or(gguf.full(kScalingType), "linear");
  const double factor = gguf.number_or(kScalingFactor, gguf.number_or(kScaleLinear, 0));
  if (type == "linear") {
    if (factor != 0 && factor != 1) {  // both mean no scaling
      out.factor = factor;
      out.scaling = RopeConfig::Scaling::kLinear;
    }
  } else if (type == "yarn") {
    out.factor = factor;
    out.scaling = RopeConfig::Scaling::kYarn;
    out.original_context = gguf.count_or(kOriginalContext, kMaxContext, keys.context_length);
    out.beta_fast = gguf.number_or(kYarnBetaFast, 32);
    out.beta_slow = gguf.number_or(kYarnBetaSlow, 1);
    out.attention_factor =
        static_cast<float>(gguf.number_or(kYarnAttentionFactor, yarn_attention_factor(factor)) *
                           gguf.number_or(kAttentionFactor, 1));
  } else if (type != "none" && type != "default" && type != "mrope") {
    gguf.fail(kScalingType, std::string(type) + " is not known; known are none, linear, yarn");
  }
  read_rope_factors(gguf.file(), out);
  if (keys.interleaved_axes) {
    out.mrope_section = mrope_section(gguf, out.dimension);
    out.mrope_interleaved = true;
  }
  return out;
}

// Keys of config.json.

std::size_t original_context(const JsonLocation& rope, std::size_t fallback) {
  const std::optional<JsonLocation> found = rope.find("original_max_position_embeddings");
  return found ? count_at(*found, kMaxContext) : fallback;
}

void read_yarn(const JsonLocation& rope, RopeConfig& out) {
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

void read_rope_scaling(const JsonLocation& rope, RopeConfig& out, std::size_t context) {
  const std::string type = rope.text_or("rope_type", rope.text_or("type", "default"));
  // "dynamic" changes the frequencies only past the context length, which is not supported.
  if (type == "default" || type == "mrope" || type == "dynamic") return;
  if (type != "linear" && type != "llama3" && type != "yarn") {
    rope.fail("the rope type '" + type + "' is not known; known are default, linear, dynamic, llama3, yarn");
  }
  out.factor = rope.at("factor").number();
  if (type == "linear") {
    out.scaling = RopeConfig::Scaling::kLinear;
    return;
  }
  out.original_context = original_context(rope, context);
  if (type == "yarn") return read_yarn(rope, out);
  out.scaling = RopeConfig::Scaling::kLlama3;
  out.low_freq_factor = rope.at("low_freq_factor").number();
  out.high_freq_factor = rope.at("high_freq_factor").number();
}

// Newer configs have everything in `rope_parameters`; older ones have `rope_theta` and
// `partial_rotary_factor`, and optionally `rope_scaling`.
RopeConfig read_rope_hf(const HfSource& hf, const RopeKeys& keys) {
  const JsonLocation& text = hf.text();
  std::optional<JsonLocation> rope = text.find("rope_parameters");
  if (!rope) rope = text.find("rope_scaling");
  if (rope) {
    if (std::optional<JsonLocation> inner = rope->find("full_attention")) rope = std::move(inner);
  }
  const auto number = [&](std::string_view key, double fallback) {
    return rope && rope->has(key) ? rope->at(key).number() : text.number_or(key, fallback);
  };
  RopeConfig out;
  out.theta = number("rope_theta", keys.hf_theta);
  const double part = number("partial_rotary_factor", keys.hf_part);
  if (!(part > 0 && part <= 1)) text.fail("partial_rotary_factor must lie in 0 to 1");
  out.dimension = static_cast<std::size_t>(static_cast<double>(keys.head_dim) * part);
  if (rope) read_rope_scaling(*rope, out, keys.context_length);
  if (!keys.interleaved_axes) return out;
  out.mrope_section = default_mrope_section(out.dimension);
  out.mrope_interleaved = true;
  if (const auto section = rope ? rope->find("mrope_section") : std::nullopt) {
    out.mrope_section.clear();
    for (std::size_t i = 0; i < section->size(); ++i) {
      const std::int64_t pairs = section->at(i).integer();
      if (pairs < 0 || pairs > kMaxHeadDim) section->at(i).fail("is out of range");
      out.mrope_section.push_back(static_cast<std::size_t>(pairs));
    }
  }
  return out;
}

}  // namespace

std::shared_ptr<const RopeConfig> read_rope(const ConfigSource& source, const RopeKeys& keys) {
  auto out = std::make_shared<RopeConfig>(source.hf() != nullptr ? read_rope_hf(*source.hf(), keys)
                                                                 : read_rope_gguf(*source.gguf(), keys));
  finish_rope(*out, keys.head_dim, [&](RopeField field, const std::string& reason) {
    switch (field) {
      case RopeField::kTheta:
        return source.fail(kRopeTheta, reason);
      case RopeField::kDimension:
        return source.fail(kRopeDimension, reason);
      case RopeField::kSection:
        return source.fail(kRopeSection, reason);
      case RopeField::kScaling:
        return source.fail(kRopeScaling, reason);
    }
  });
  return out;
}

}  // namespace reprise::models
