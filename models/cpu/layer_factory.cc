#include "models/cpu/layer_factory.h"

#include "models/cpu/attention.h"
#include "models/cpu/gated_delta_net.h"
#include "models/cpu/kda.h"
#include "models/cpu/mamba2.h"
#include "models/cpu/mla.h"
#include "models/cpu/mlp.h"
#include "models/cpu/moe.h"
#include "models/cpu/rg_lru.h"
#include "models/cpu/rwkv.h"
#include "models/cpu/selective_scan.h"
#include "models/cpu/swiglu.h"

namespace reprise::models {

std::unique_ptr<Part> LayerFactory::build_part(const AttentionSpec& spec) {
  return std::make_unique<Attention>(spec, checkpoint_, options_, state_, ropes_);
}

std::unique_ptr<Part> LayerFactory::build_part(const DeltaNetSpec& spec) {
  return std::make_unique<GatedDeltaNet>(spec, checkpoint_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const SelectiveScanSpec& spec) {
  return std::make_unique<SelectiveScan>(spec, checkpoint_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const SwiGluSpec& spec) {
  return std::make_unique<SwiGlu>(spec, checkpoint_);
}

std::unique_ptr<Part> LayerFactory::build_part(const MoeSpec& spec) {
  return std::make_unique<Moe>(spec, checkpoint_);
}

std::unique_ptr<Part> LayerFactory::build_part(const KdaSpec& spec) {
  return std::make_unique<Kda>(spec, checkpoint_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const MlaSpec& spec) {
  return std::make_unique<Mla>(spec, checkpoint_, options_, state_, ropes_);
}

std::unique_ptr<Part> LayerFactory::build_part(const RgLruSpec& spec) {
  return std::make_unique<RgLruBlock>(spec, checkpoint_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const TimeMixSpec& spec) {
  return std::make_unique<TimeMix>(spec, checkpoint_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const ChannelMixSpec& spec) {
  return std::make_unique<ChannelMix>(spec, checkpoint_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const Mamba2Spec& spec) {
  return std::make_unique<Mamba2>(spec, checkpoint_, state_);
}

std::unique_ptr<Part> LayerFactory::build_part(const MlpSpec& spec) {
  return std::make_unique<Mlp>(spec, checkpoint_);
}

Layer LayerFactory::build(const LayerSpec& spec) {
  Layer layer;
  for (const ResidualSpec& step : spec.steps) {
    ResidualStep& out = layer.steps.emplace_back();
    if (step.norm) out.norm.emplace(checkpoint_, *step.norm);
    for (const PartSpec& part : step.parts) {
      out.parts.push_back(std::visit([&](const auto& one) { return build_part(one); }, part));
    }
    for (const PartSpec& part : step.late_parts) {
      out.late_parts.push_back(std::visit([&](const auto& one) { return build_part(one); }, part));
    }
    out.scales = step.scales;
    if (step.norm_after) out.norm_after.emplace(checkpoint_, *step.norm_after);
    out.multiplier = step.multiplier;
  }
  return layer;
}

}  // namespace reprise::models
