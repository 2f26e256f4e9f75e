// Rope in config.json.

#include <optional>
#include <utility>

#include "models/arch/hf_source.h"
#include "models/arch/rope_keys.h"

namespace reprise::models {
namespace {

std::size_t original_context(const JsonPlace& rope, std::size_t fallback) {
  const std::optional<JsonPlace> found = rope.find("original_max_position_embeddings");
  return found ? count_at(*found, kLongestContext) : fallback;
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
  out.original_context = original_context(rope, context);
  if (type == "yarn") return read_yarn(rope, out);
  out.scaling = RopeConfig::Scaling::kLlama3;
  out.low_freq_factor = rope.at("low_freq_factor").number();
  out.high_freq_factor = rope.at("high_freq_factor").number();
}

}  // namespace

// Newer configs have everything in `rope_parameters`, older ones `rope_theta` and `partial_rotary_factor`
// beside an optional `rope_scaling`.
RopeConfig read_rope_hf(const HfSource& hf, const RopeKeys& keys) {
  const JsonPlace& text = hf.text();
  std::optional<JsonPlace> rope = text.find("rope_parameters");
  if (!rope) rope = text.find("rope_scaling");
  if (rope) {
    if (std::optional<JsonPlace> inner = rope->find("full_attention")) rope = std::move(inner);
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
      if (pairs < 0 || pairs > kLargestHeadDim) section->at(i).fail("is out of range");
      out.mrope_section.push_back(static_cast<std::size_t>(pairs));
    }
  }
  return out;
}

}  // namespace reprise::models
