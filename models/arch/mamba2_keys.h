#pragma once
// Reads the hyperparameters of Mamba-2. Families spell them differently in config.json; GGUF has one name for
// each. Errors are LoadErrors.

#include <cstddef>
#include <string_view>

#include "models/arch/config_source.h"
#include "models/parts/mamba2.h"

namespace reprise::models {

/// Names in config.json.
struct Mamba2Keys {
  std::string_view heads;
  std::string_view head_dim;
  std::string_view groups;
  std::string_view state_size;
  std::string_view conv_kernel;
  std::string_view conv_bias;  // default: true
  std::string_view in_bias;
  std::string_view out_bias;
  std::string_view activation;
  std::string_view dt_limit = "time_step_limit";

  std::size_t default_heads = 128;
  std::size_t default_head_dim = 64;
  std::size_t default_groups = 1;
  std::size_t default_state_size = 128;
  /// Index of a Mamba-2 layer; GGUF has biases if this layer has the tensors.
  std::size_t layer = 0;
};

/// Returns everything but name, norm, gating and multipliers.
Mamba2Spec read_mamba2(const ConfigSource& source, std::size_t hidden, const Mamba2Keys& keys);

}  // namespace reprise::models
