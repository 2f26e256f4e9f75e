#include "tools/lab/random_model/draws.h"

#include <cmath>

namespace reprise::tools {
namespace {

Draw normal_around(float mean, float scale) {
  return [=](Random& random) { return mean + scale * random.normal(); };
}

}  // namespace

float scale_for(const models::TensorSpec& spec, const models::ModelConfig& config) {
  const auto ends = [&](std::string_view end) { return spec.name.ends_with(end); };
  if (ends("embed_tokens.weight") || ends("lm_head.weight")) return 0.02F;
  const float scale = 1.0F / std::sqrt(static_cast<float>(spec.shape.back()));
  if (ends("o_proj.weight") || ends("out_proj.weight") || ends("down_proj.weight") || ends("down_proj")) {
    return scale / std::sqrt(2.0F * static_cast<float>(config.layers.size()));  // adds to the residual stream
  }
  return scale;
}

Draw draw_for(const models::TensorSpec& spec, const models::ModelConfig& config) {
  const auto ends = [&](std::string_view end) { return spec.name.ends_with(end); };
  if (ends("A_log")) return [](Random& random) { return std::log(1.0F + 15.0F * random.uniform()); };
  if (ends("dt_bias")) {
    // What softplus turns into steps from 0.001 to 0.1, evenly in their logarithm.
    return [](Random& random) {
      const float step = std::exp(std::log(0.001F) + random.uniform() * std::log(100.0F));
      return std::log(std::expm1(step));
    };
  }
  if (ends(".bias")) return normal_around(0.0F, 0.01F);
  if (ends("linear_attn.norm.weight")) return normal_around(1.0F, 0.05F);
  if (ends("norm.weight")) return normal_around(1.0F - config.final_norm.kind.offset, 0.05F);
  return normal_around(0.0F, scale_for(spec, config));
}

}  // namespace reprise::tools
