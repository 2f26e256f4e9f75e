#pragma once
// The keys of Mamba-2. Families spell them differently in config.json; GGUF has one name for each.
//
// Threading: pure functions. What is wrong ends in a LoadError.

#include <cstddef>
#include <string_view>

#include "models/arch/config_source.h"
#include "models/parts/mamba2.h"

namespace reprise::models {

/// Names in config.json; what counts where it is silent stands behind some of them.
struct Mamba2Keys {
  std::string_view heads;
  std::string_view head_dim;
  std::string_view groups;
  std::string_view state_size;
  std::string_view conv_kernel;
  std::string_view conv_bias;  // true where it is silent
  std::string_view in_bias;
  std::string_view out_bias;
  std::string_view activation;
  std::string_view dt_limit = "time_step_limit";

  std::size_t default_heads = 128;
  std::size_t default_head_dim = 64;
  std::size_t default_groups = 1;
  std::size_t default_state_size = 128;
  /// A layer that has it: of its tensors GGUF learns whether there are biases.
  std::size_t layer = 0;
};

/// All but name, norm, gating and multipliers.
Mamba2Spec read_mamba2(const ConfigSource& source, std::size_t hidden, const Mamba2Keys& keys);

}  // namespace reprise::models
