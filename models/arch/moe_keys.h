#pragma once
// The keys of a mixture of experts, and which layers have one.
//
// Threading: pure functions. What is wrong ends in a LoadError.

#include <cstddef>
#include <vector>

#include "models/arch/config_source.h"
#include "models/parts/moe.h"

namespace reprise::models {

inline constexpr std::int64_t kMostExperts = 4096;  // of a layer

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

/// What a source calls the numbers of a router; a key that it has not is empty.
struct RouterKeys {
  Key experts{};
  Key chosen{};
  Key groups{};
  Key chosen_groups{};
};

/// That the numbers of a router, which `layers` layers have, suit each other.
void check_router(const ConfigSource& source, const RouterKeys& keys, const MoeSpec& moe, std::size_t layers);

/// Which layers have experts: in GGUF those that have their tensors; in Hugging Face all, or, where the family has
/// these keys, every `decoder_sparse_step`th one that is not among `mlp_only_layers`.
std::vector<bool> read_expert_layers(const ConfigSource& source, std::size_t layers, bool has_placement_keys);

}  // namespace reprise::models
