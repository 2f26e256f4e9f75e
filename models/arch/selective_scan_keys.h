#pragma once
// Reads the hyperparameters of Mamba-1's mixer. GGUF has one name for each; Hugging Face's differ by family.
// Errors are LoadErrors.

#include <string_view>

#include "models/arch/config_source.h"
#include "models/parts/selective_scan.h"

namespace reprise::models {

struct SelectiveScanKeys {
  std::size_t hidden = 0;
  // Names in config.json. Defaults, in order: 16, 4, hidden / 16 rounded up, 2, none, true, false.
  std::string_view state_size;
  std::string_view conv_kernel;
  std::string_view step_rank;  // "auto" selects the default
  std::string_view expand;     // inner / hidden
  std::string_view inner;      // overrides `expand`; empty: no such key
  std::string_view conv_bias;
  std::string_view bias;  // bias of in_proj and out_proj
  /// Index of a layer with this mixer; GGUF has biases if this layer has the tensors.
  std::size_t layer = 0;
};

/// Returns sizes and biases; the family fills in name and norms.
SelectiveScanSpec read_selective_scan(const ConfigSource& source, const SelectiveScanKeys& keys);

}  // namespace reprise::models
