#include "models/gpu_refusal.h"

#include <variant>

namespace reprise::models {
namespace {

using Refusal = std::optional<std::string>;

// A line for each kind of part that a GPU has.
Refusal refusal_of(const AttentionSpec& part) {
  if (part.score_multiplier == 1) return std::nullopt;
  return part.name + ": attention with a multiplier";
}
Refusal refusal_of(const DeltaNetSpec&) {
  return std::nullopt;
}
Refusal refusal_of(const SwiGluSpec& part) {
  if (part.activation == Activation::kSilu && part.gate_multiplier == 1) return std::nullopt;
  return part.name + ": a feed-forward part with gelu or a multiplier";
}
template <class Part>
Refusal refusal_of(const Part& part) {
  return part.name + ": such a part";
}

}  // namespace

std::optional<std::string> gpu_refusal(const LayerSpec& layer) {
  for (const ResidualSpec& step : layer.steps) {
    if (!step.norm || step.norm_after || step.multiplier != 1 || !step.scales.empty()) {
      return "parts without a norm before them, a norm after them, or a multiplier";
    }
    for (const PartSpec& part : step.parts) {
      Refusal refusal = std::visit([](const auto& one) { return refusal_of(one); }, part);
      if (refusal) return refusal;
    }
  }
  return std::nullopt;
}

std::optional<std::string> gpu_refusal(const ModelConfig& model) {
  for (const LayerSpec& layer : model.layers) {
    if (Refusal refusal = gpu_refusal(layer)) return refusal;
  }
  return std::nullopt;
}

}  // namespace reprise::models
