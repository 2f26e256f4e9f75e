#pragma once
// A mixture of experts, as a model describes it: of many feed-forward parts each token goes through the few that
// its router chooses, and, where there is one, through an expert that all tokens share. The CPU builds it in
// models/cpu/moe.h. It keeps no state.
//
//   p = softmax(x gate^T) over all experts; the `chosen` largest count, of equal ones those of lower index
//   y = sum of p_e / (sum of the chosen p, if normalised) * expert_e(x), in ascending order of e
//     + sigmoid(x shared_expert_gate^T) * shared_expert(x)
//   expert(x) = down(silu(gate(x)) * up(x))
//
// Tensors: `name`.gate [experts, hidden]; for each expert e `name`.experts.e.gate_proj and up_proj [intermediate,
// hidden], down_proj [hidden, intermediate]; with a shared expert `name`.shared_expert_gate [1, hidden] and
// `name`.shared_expert.gate_proj, up_proj [shared_intermediate, hidden], down_proj [hidden, shared_intermediate].
// Files have each expert's matrices alone, or those of all experts stacked, and gate and up of each fused.
//
// Threading: plain values.

#include <cstddef>
#include <string>

#include "models/layers/tensor_list.h"

namespace reprise::models {

struct MoeSpec {
  std::string name{};  // before ".experts.0.gate_proj"
  std::size_t hidden = 0;
  std::size_t experts = 0;
  std::size_t chosen = 0;               // of them for each token: 1 to experts
  std::size_t intermediate = 0;         // of an expert
  bool normalised = true;               // the weights of the chosen add up to 1
  std::size_t shared_intermediate = 0;  // 0: there is no shared expert

  bool has_shared() const { return shared_intermediate != 0; }
  /// Weights of the experts that a token does not go through.
  std::size_t idle_parameters() const { return (experts - chosen) * 3 * hidden * intermediate; }

  bool operator==(const MoeSpec&) const = default;
};

/// `block` is what llama.cpp puts before the names of the layer: "blk.3".
void add_tensors(TensorList& tensors, const MoeSpec& moe, const std::string& block);

}  // namespace reprise::models
