#pragma once
// Reads the hyperparameters of mixtures of experts, and which layers have one. Errors are LoadErrors.

#include <cstddef>
#include <vector>

#include "models/arch/config_source.h"
#include "models/parts/moe.h"

namespace reprise::models {

inline constexpr std::int64_t kMaxExperts = 4096;  // per layer

struct MoeKeys {
  std::size_t hidden = 0;
  /// True if config.json may have `norm_topk_prob`. Without it, the weights of the chosen experts are
  /// normalized.
  bool has_norm_key = false;
  /// The number of layers with experts, and the index of one; for GGUF, its tensors supply sizes that keys
  /// omit.
  std::size_t layers = 1;
  std::size_t layer = 0;
};

/// The MoE part of all layers that have one; its name is left empty.
MoeSpec read_moe(const ConfigSource& source, const MoeKeys& keys);

/// Keys named in errors; empty if a source does not have them.
struct RouterKeys {
  Key experts{};
  Key chosen{};
  Key groups{};
  Key chosen_groups{};
};

/// Fails if the router's sizes are inconsistent, or `layers` such layers have too many experts.
void check_router(const ConfigSource& source, const RouterKeys& keys, const MoeSpec& moe, std::size_t layers);

/// Which layers have experts. GGUF: those with expert tensors. Hugging Face: all, or with
/// `has_placement_keys` every `decoder_sparse_step`th that is not in `mlp_only_layers`.
std::vector<bool> read_expert_layers(const ConfigSource& source, std::size_t layers, bool has_placement_keys);

}  // namespace reprise::models
