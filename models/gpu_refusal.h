#pragma once
// What a GPU computes, asked of a description, so that everybody can ask whether there is one or not. The CUDA factory
// (models/cuda/layer_factory.h) asks before it builds.
//
// Threading: pure functions.

#include <optional>
#include <string>

#include "models/arch/config.h"
#include "models/compute_options.h"

namespace reprise::models {

/// Why a GPU does not compute the layer, or the model; nothing: it does.
std::optional<std::string> gpu_refusal(const LayerSpec& layer);
std::optional<std::string> gpu_refusal(const ModelConfig& model);
/// Why a GPU does not compute with such settings, whatever the model.
std::optional<std::string> gpu_refusal(const ComputeOptions& options);

}  // namespace reprise::models
