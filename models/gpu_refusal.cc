#include "models/gpu_refusal.h"

#include <variant>

#include "gpu/gpu_limits.h"

namespace reprise::models {
namespace {

using Refusal = std::optional<std::string>;

/// Refuses a scan whose state of `size` values per channel or column exceeds the kernels' maximum.
Refusal refusal_of_scan(const std::string& name, std::size_t size) {
  constexpr std::size_t kMost = gpu::kMostScanNumbers;
  if (size <= kMost) return std::nullopt;
  return name + ": a state size of " + std::to_string(size) + ", above " + std::to_string(kMost) + ",";
}

// One overload per kind of part.
Refusal refusal_of(const AttentionSpec& part) {
  if (part.score_multiplier > 0) return std::nullopt;
  return part.name + ": attention with a multiplier that is not positive";
}
Refusal refusal_of(const DeltaNetSpec&) {
  return std::nullopt;
}
Refusal refusal_of(const SelectiveScanSpec& part) {
  return refusal_of_scan(part.name, part.state_size);
}
Refusal refusal_of(const Mamba2Spec& part) {
  return refusal_of_scan(part.name, part.state_size);
}
Refusal refusal_of(const SwiGluSpec&) {
  return std::nullopt;
}
Refusal refusal_of(const MlpSpec&) {
  return std::nullopt;
}
Refusal refusal_of(const MoeSpec& part) {
  if (part.routed() > gpu::kMostRoutedOnGpu || part.chosen > gpu::kMostChosenOnGpu) {
    return part.name + ": " + std::to_string(part.chosen) + " of " + std::to_string(part.routed()) +
           " experts, above " + std::to_string(gpu::kMostChosenOnGpu) + " of " +
           std::to_string(gpu::kMostRoutedOnGpu) + ",";
  }
  if (part.intermediate % 8 == 0 && part.width() % 8 == 0) return std::nullopt;
  return part.name + ": experts of " + std::to_string(part.width()) + " by " +
         std::to_string(part.intermediate) + ", which are no multiples of 8,";
}
Refusal refusal_of(const KdaSpec& part) {
  return refusal_of_scan(part.name, part.head_dim);
}
Refusal refusal_of(const MlaSpec& part) {
  const std::size_t stored = part.stored_dim();
  if (part.rank <= gpu::kMostLatent && stored <= gpu::kMostStored && part.rank % 2 == 0 && stored % 8 == 0) {
    return std::nullopt;
  }
  return part.name + ": latent attention of " + std::to_string(part.rank) + " + " +
         std::to_string(part.turned_dim) + " elements a token";
}
Refusal refusal_of(const RgLruSpec&) {
  return std::nullopt;
}
Refusal refusal_of(const TimeMixSpec& part) {
  return refusal_of_scan(part.name, part.head_dim);
}
Refusal refusal_of(const ChannelMixSpec&) {
  return std::nullopt;
}

}  // namespace

std::optional<std::string> gpu_refusal(const LayerSpec& layer) {
  for (const ResidualSpec& step : layer.steps) {
    for (const std::vector<PartSpec>* parts : {&step.parts, &step.late_parts}) {
      for (const PartSpec& part : *parts) {
        Refusal refusal = std::visit([](const auto& one) { return refusal_of(one); }, part);
        if (refusal) return refusal;
      }
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

std::optional<std::string> gpu_refusal(const ComputeOptions& options) {
  if (options.compute == gpu::Compute::kF32) {
    return "compute f32 is for the CPU: a GPU has auto, bf16 and precise";
  }
  if (options.kv == gpu::KvType::kF32 && options.compute != gpu::Compute::kPrecise) {
    return "a GPU keeps keys and values as bf16, int8 or int4; as f32 with --compute precise alone";
  }
  return std::nullopt;
}

}  // namespace reprise::models
