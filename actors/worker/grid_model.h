#pragma once
// The model of the test device `cpu-grid`: CPU kernels under a GPU's rules. Prefill slices begin on a grid of
// 64 tokens, and decoding is computed by other code with other bits: the other compute setting.
//
// Threading: as models::Model.

#include <memory>
#include <string>

#include "models/device.h"

namespace reprise::actors {

/// Throws models::LoadError.
std::unique_ptr<models::Model> load_grid_model(const std::string& path, const models::ComputeOptions& options,
                                               models::Device& cpu);

}  // namespace reprise::actors
