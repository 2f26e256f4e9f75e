#pragma once
// The compute settings as users write them.

#include <stdexcept>
#include <string>

#include "models/step.h"

namespace reprise::models {

/// what() names the setting and what it may be: "compute: 'f16' is not one of f32, auto".
class SettingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// `compute` f32 or auto; `kv_dtype` f32, bf16 or auto; `isa` a name, or empty for the best. Throws
/// SettingError.
ComputeOptions compute_options(const std::string& compute, const std::string& kv_dtype,
                               const std::string& isa);

}  // namespace reprise::models
