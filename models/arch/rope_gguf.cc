// Rope in GGUF metadata: what llama.cpp's converter writes, and the spellings of other converters where they
// are known.

#include <cstring>

#include "models/arch/gguf_source.h"
#include "models/arch/rope_keys.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

constexpr Key kScalingType{"", "rope.scaling.type"};
constexpr Key kScalingFactor{"", "rope.scaling.factor"};
constexpr Key kScaleLinear{"", "rope.scale_linear"};
constexpr Key kOriginalContext{"", "rope.scaling.original_context_length"};
constexpr Key kYarnBetaFast{"", "rope.scaling.yarn_beta_fast"};
constexpr Key kYarnBetaSlow{"", "rope.scaling.yarn_beta_slow"};
constexpr Key kYarnAttentionFactor{"", "rope.scaling.yarn_attn_factor"};
constexpr Key kAttentionFactor{"", "rope.scaling.attn_factor"};

// Pairs by axis: four numbers of which the last is 0, or three of them.
std::vector<std::size_t> mrope_section(const GgufSource& gguf, std::size_t dimension) {
  for (const Key& key : {kRopeSection, Key{"", "rope.mrope_section"}, Key{"", "mrope_sections"}}) {
    if (!gguf.has(key)) continue;
    std::vector<std::size_t> out;
    for (std::int64_t pairs : gguf.metadata().integers(gguf.full(key))) {
      if (pairs < 0 || pairs > kLargestHeadDim || out.size() == 4) gguf.fail(key, "is out of range");
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

}  // namespace

RopeConfig read_rope_gguf(const GgufSource& gguf, const RopeKeys& keys) {
  RopeConfig out;
  out.theta = gguf.number_or(kRopeTheta, 10000);
  out.dimension = gguf.count_or(kRopeDimension, kLargestHeadDim, keys.head_dim);
  const std::string_view type = gguf.metadata().text_or(gguf.full(kScalingType), "linear");
  const double factor = gguf.number_or(kScalingFactor, gguf.number_or(kScaleLinear, 0));
  if (type == "linear") {
    if (factor != 0 && factor != 1) {  // both mean: none
      out.factor = factor;
      out.scaling = RopeConfig::Scaling::kLinear;
    }
  } else if (type == "yarn") {
    out.factor = factor;
    out.scaling = RopeConfig::Scaling::kYarn;
    out.original_context = gguf.count_or(kOriginalContext, kLongestContext, keys.context_length);
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

}  // namespace reprise::models
