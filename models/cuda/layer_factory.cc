#include "models/cuda/layer_factory.h"

#include "models/cuda/rwkv.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {

std::unique_ptr<Part> LayerFactory::build_part(const AttentionSpec& spec) {
  return std::make_unique<Attention>(spec, checkpoint_, kv_, weights_, state_, ropes_);
}

std::unique_ptr<Part> LayerFactory::build_part(const DeltaNetSpec& spec) {
  return std::make_unique<GatedDeltaNet>(spec, checkpoint_, weights_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const SelectiveScanSpec& spec) {
  return std::make_unique<SelectiveScan>(spec, checkpoint_, weights_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const SwiGluSpec& spec) {
  return std::make_unique<SwiGlu>(spec, weights_);
}

std::unique_ptr<Part> LayerFactory::build_part(const MoeSpec& spec) {
  HostExperts* host = on_host_.names.contains(spec.name) ? on_host_.experts : nullptr;
  return std::make_unique<Moe>(spec, checkpoint_, weights_, host);
}

std::unique_ptr<Part> LayerFactory::build_part(const KdaSpec& spec) {
  return std::make_unique<Kda>(spec, checkpoint_, weights_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const MlaSpec& spec) {
  return std::make_unique<Mla>(spec, checkpoint_, kv_, weights_, state_, ropes_);
}

std::unique_ptr<Part> LayerFactory::build_part(const RgLruSpec& spec) {
  return std::make_unique<RgLruBlock>(spec, checkpoint_, weights_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const TimeMixSpec& spec) {
  return std::make_unique<TimeMix>(spec, checkpoint_, weights_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const ChannelMixSpec& spec) {
  return std::make_unique<ChannelMix>(spec, checkpoint_, weights_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const Mamba2Spec& spec) {
  return std::make_unique<Mamba2>(spec, checkpoint_, weights_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const MlpSpec& spec) {
  return std::make_unique<Mlp>(spec, weights_);
}

DeviceNorm LayerFactory::build_norm(const NormSpec& spec) {
  const auto vector = [&](const char* which) {
    return weights_.vector(load_vector(checkpoint_, spec.name + which));
  };
  return {
      .weight = vector(".weight"), .bias = spec.kind.centred ? vector(".bias") : nullptr, .kind = spec.kind};
}

std::vector<ResidualStep> LayerFactory::build(const LayerSpec& spec) {
  std::vector<ResidualStep> steps;
  bool has_late = false;
  for (const ResidualSpec& step : spec.steps) {
    ResidualStep& out = steps.emplace_back();
    if (step.norm) out.norm = build_norm(*step.norm);
    for (const PartSpec& part : step.parts) {
      out.parts.push_back(std::visit([&](const auto& one) { return build_part(one); }, part));
    }
    out.scales = step.scales.empty() ? std::vector<PartScale>(step.parts.size()) : step.scales;
    if (step.norm_after) out.norm_after = build_norm(*step.norm_after);
    out.multiplier = step.multiplier;
    for (const PartSpec& part : step.late_parts) {
      out.late_parts.push_back(std::visit([&](const auto& one) { return build_part(one); }, part));
      has_late = true;
    }
  }
  if (has_late) steps.front().begins_late = steps.back().ends_late = true;
  return steps;
}

}  // namespace reprise::models::cuda
