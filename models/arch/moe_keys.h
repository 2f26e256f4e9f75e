#pragma once
// The keys of a mixture of experts, and which layers have one.
//
// Threading: pure functions. What is wrong ends in a LoadError.

#include <cstddef>
#include <vector>

#include "models/arch/config_source.h"
#include "models/layers/moe_spec.h"

namespace reprise::models {

struct MoeKeys {
  std::size_t hidden = 0;
  /// Whether config.json may say `norm_topk_prob`; the weights of the chosen are normalised where nothing is said.
  bool has_norm_key = false;
  /// How many layers have experts, and one of them: of its tensors GGUF learns the sizes that its keys leave out.
  std::size_t layers = 1;
  std::size_t layer = 0;
};

/// Of every layer that has one; without its name.
MoeSpec read_moe(const ConfigSource& source, const MoeKeys& keys);

/// Which layers have experts: in GGUF those that have their tensors; in Hugging Face all, or, where the family has
/// these keys, every `decoder_sparse_step`th one that is not among `mlp_only_layers`.
std::vector<bool> read_expert_layers(const ConfigSource& source, std::size_t layers, bool has_placement_keys);

}  // namespace reprise::models
