#pragma once
// Compute settings of a model, and how users write them.

#include <stdexcept>
#include <string>

#include "gpu/compute.h"

namespace reprise::models {

struct ComputeOptions {
  gpu::Compute compute = gpu::Compute::kAuto;
  gpu::KvType kv = gpu::KvType::kBF16;
  gpu::Isa isa = gpu::best_isa();
};

/// what() names the setting and its values: "compute: 'f16' is not one of f32, precise, bf16, auto".
class SettingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parses settings. `compute`: f32, precise, bf16 or auto; `kv_dtype`: f32, bf16, int8, int4 or auto; `isa`:
/// a name, or empty for the best. Throws SettingError.
ComputeOptions compute_options(const std::string& compute, const std::string& kv_dtype,
                               const std::string& isa);

}  // namespace reprise::models
