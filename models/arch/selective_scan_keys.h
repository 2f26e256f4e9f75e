#pragma once
// The keys of Mamba-1's mixer. GGUF has one name for each; Hugging Face's differ from family to family.
//
// Threading: pure functions. What is wrong ends in a LoadError.

#include <string_view>

#include "models/arch/config_source.h"
#include "models/parts/selective_scan.h"

namespace reprise::models {

struct SelectiveScanKeys {
  std::size_t hidden = 0;
  // In config.json; where one is not there: 16, 4, hidden / 16 rounded up, 2, true, false.
  std::string_view state_size;
  std::string_view conv_kernel;
  std::string_view step_rank;  // may be "auto", which is as if it were not there
  std::string_view expand;     // inner / hidden
  std::string_view inner;      // says so itself, and wins; empty: no such key
  std::string_view conv_bias;
  std::string_view bias;  // of in_proj and out_proj
  /// A layer that has such a mixer: of its tensors GGUF learns whether there are biases.
  std::size_t layer = 0;
};

/// Sizes and biases; name and norms are left for the family to fill in.
SelectiveScanSpec read_selective_scan(const ConfigSource& source, const SelectiveScanKeys& keys);

}  // namespace reprise::models
