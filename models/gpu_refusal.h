#pragma once
// Tells from a model's description whether a GPU can compute it; needs no GPU. The CUDA factory
// (models/cuda/layer_factory.h) asks before it builds.

#include <optional>
#include <string>

#include "models/arch/config.h"
#include "models/compute_options.h"

namespace reprise::models {

/// Returns why a GPU cannot compute the layer or the model; nullopt if it can.
std::optional<std::string> gpu_refusal(const LayerSpec& layer);
std::optional<std::string> gpu_refusal(const ModelConfig& model);
/// Returns why a GPU cannot compute any model with these settings; nullopt if it can.
std::optional<std::string> gpu_refusal(const ComputeOptions& options);

}  // namespace reprise::models
