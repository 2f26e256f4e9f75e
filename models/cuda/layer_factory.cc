#include "models/cuda/layer_factory.h"

#include "models/files/load_error.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {

std::unique_ptr<Part> LayerFactory::build_part(const AttentionSpec& spec) {
  if (spec.window != 0) {
    throw LoadError(checkpoint_.path(), spec.name,
                    "attention with a window is not computed on a GPU; --device cpu does");
  }
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

std::unique_ptr<Part> LayerFactory::build_part(const KdaSpec& spec) {
  throw LoadError(checkpoint_.path(), spec.name,
                  "Kimi Delta Attention is not computed on a GPU; --device cpu does");
}

std::unique_ptr<Part> LayerFactory::build_part(const MlaSpec& spec) {
  throw LoadError(checkpoint_.path(), spec.name,
                  "latent attention is not computed on a GPU; --device cpu does");
}

std::unique_ptr<Part> LayerFactory::build_part(const RgLruSpec& spec) {
  throw LoadError(checkpoint_.path(), spec.name, "RG-LRU is not computed on a GPU; --device cpu does");
}

std::unique_ptr<Part> LayerFactory::build_part(const TimeMixSpec& spec) {
  throw LoadError(checkpoint_.path(), spec.name, "RWKV is not computed on a GPU; --device cpu does");
}

std::unique_ptr<Part> LayerFactory::build_part(const ChannelMixSpec& spec) {
  throw LoadError(checkpoint_.path(), spec.name, "RWKV is not computed on a GPU; --device cpu does");
}

std::unique_ptr<Part> LayerFactory::build_part(const Mamba2Spec& spec) {
  throw LoadError(checkpoint_.path(), spec.name, "Mamba-2 is not computed on a GPU; --device cpu does");
}

std::unique_ptr<Part> LayerFactory::build_part(const MlpSpec& spec) {
  throw LoadError(checkpoint_.path(), spec.name,
                  "a feed-forward part without a gate is not computed on a GPU; --device cpu does");
}

DeviceNorm LayerFactory::build_norm(const NormSpec& spec) {
  if (spec.kind.centred) {
    throw LoadError(checkpoint_.path(), spec.name, "LayerNorm is not computed on a GPU; --device cpu does");
  }
  return {.weight = weights_.vector(load_vector(checkpoint_, spec.name + ".weight")), .kind = spec.kind};
}

std::vector<ResidualStep> LayerFactory::build(const LayerSpec& spec) {
  std::vector<ResidualStep> steps;
  for (const ResidualSpec& step : spec.steps) {
    if (!step.norm || step.norm_after || step.multiplier != 1 || !step.scales.empty() ||
        !step.late_parts.empty()) {
      throw LoadError(checkpoint_.path(), "",
                      "its layers are arranged in a way that is not computed on a GPU: parts without a norm "
                      "before them, a norm after them, a multiplier, or parts that come late");
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
