#include "models/cuda/layer_factory.h"

#include "models/files/load_error.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {

std::unique_ptr<Part> LayerFactory::build_part(const AttentionSpec& spec) {
  if (spec.score_multiplier != 1) {
    throw LoadError(checkpoint_.path(), spec.name,
                    "attention with a multiplier is not computed on a GPU; --device cpu does");
  }
  return std::make_unique<Attention>(spec, checkpoint_, weights_, state_, ropes_);
}

std::unique_ptr<Part> LayerFactory::build_part(const DeltaNetSpec& spec) {
  return std::make_unique<GatedDeltaNet>(spec, checkpoint_, weights_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const SelectiveScanSpec& spec) {
  throw LoadError(checkpoint_.path(), spec.name,
                  "a selective scan is not computed on a GPU; --device cpu does");
}

std::unique_ptr<Part> LayerFactory::build_part(const SwiGluSpec& spec) {
  if (spec.activation != Activation::kSilu || spec.gate_multiplier != 1) {
    throw LoadError(
        checkpoint_.path(), spec.name,
        "a feed-forward part with gelu or a multiplier is not computed on a GPU; --device cpu does");
  }
  return std::make_unique<SwiGlu>(spec, weights_);
}

std::unique_ptr<Part> LayerFactory::build_part(const MoeSpec& spec) {
  throw LoadError(checkpoint_.path(), spec.name,
                  "a mixture of experts is not computed on a GPU; --device cpu does");
}

std::unique_ptr<Part> LayerFactory::build_part(const Mamba2Spec& spec) {
  throw LoadError(checkpoint_.path(), spec.name, "Mamba-2 is not computed on a GPU; --device cpu does");
}

std::unique_ptr<Part> LayerFactory::build_part(const MlpSpec& spec) {
  throw LoadError(checkpoint_.path(), spec.name,
                  "a feed-forward part without a gate is not computed on a GPU; --device cpu does");
}

DeviceNorm LayerFactory::build_norm(const NormSpec& spec) {
  return {.weight = weights_.vector(load_vector(checkpoint_, spec.name + ".weight")), .kind = spec.kind};
}

std::vector<ResidualStep> LayerFactory::build(const LayerSpec& spec) {
  std::vector<ResidualStep> steps;
  for (const ResidualSpec& step : spec.steps) {
    if (!step.norm || step.norm_after || step.multiplier != 1 || !step.scales.empty()) {
      throw LoadError(checkpoint_.path(), "",
                      "its layers are arranged in a way that is not computed on a GPU: parts without a norm "
                      "before them, a norm after them, or a multiplier");
    }
    ResidualStep& out = steps.emplace_back();
    out.norm = build_norm(*step.norm);
    for (const PartSpec& part : step.parts) {
      out.parts.push_back(std::visit([&](const auto& one) { return build_part(one); }, part));
    }
  }
  return steps;
}

}  // namespace reprise::models::cuda
