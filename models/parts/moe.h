#pragma once
// A mixture of experts, as a model describes it: of many feed-forward parts each token goes through the few that
// its router chooses, and, where there is one, through an expert that all tokens share. It keeps no
// state.
//
//   s = softmax(x gate^T) over all experts, or sigmoid(x gate^T)
//   the `chosen` largest s + correction bias count, of equal ones those of lower index; where experts stand in
//   groups, only those of the best groups (gpu/expert_routing.h)
//   y = sum of weight_e * expert_e(x), in ascending order of e
//     + sigmoid(x shared_expert_gate^T) * shared_expert(x), or shared_expert(x) itself
//   weight_e = s_e / (sum of the chosen s + epsilon, if normalised) * scale
//   expert(x) = down(silu(gate(x)) * up(x)), or down(relu(up(x))^2); that of a zero expert is x itself
//
// Where there is a latent size, the experts that the router chooses see fc1_latent_proj(x), and their sum goes through
// fc2_latent_proj.
//
// Several shared experts are one that is as wide as all of them.
//
// Tensors: `name`.gate [experts + zero experts, hidden] and, where there is one, gate.e_score_correction_bias; for each
// expert e `name`.experts.e.gate_proj and up_proj [intermediate, hidden], down_proj [hidden, intermediate]; with a
// shared expert `name`.shared_expert.gate_proj, up_proj [shared_intermediate, hidden], down_proj [hidden,
// shared_intermediate] and, if it is gated, `name`.shared_expert_gate [1, hidden]. Files have each expert's matrices
// alone (also as w1, w3 and w2), or those of all experts stacked, and gate and up of each fused. Experts of the second
// form have no gate_proj. Latent: `name`.fc1_latent_proj [latent, hidden], fc2_latent_proj [hidden, latent], and
// `latent` in place of `hidden` in the matrices of the experts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu/expert_routing.h"
#include "models/parts/part.h"

namespace reprise::models {

struct MoeSpec {
  enum class Form : std::uint8_t { kSwiGlu, kReluSquared };

  std::string name{};  // before ".experts.0.gate_proj"
  std::size_t hidden = 0;
  std::size_t experts = 0;
  std::size_t chosen = 0;               // of them for each token: 1 to routed()
  std::size_t intermediate = 0;         // of an expert
  bool normalised = true;               // the weights of the chosen add up to 1
  std::size_t shared_intermediate = 0;  // 0: there is no shared expert
  bool shared_gate = true;
  gpu::RouterScores scores = gpu::RouterScores::kSoftmax;
  bool correction_bias = false;
  std::size_t groups = 1;         // of consecutive experts; all of one size
  std::size_t chosen_groups = 1;  // 1 to groups
  float epsilon = 0;
  float scale = 1;
  std::size_t zero_experts = 0;  // behind the others; none where there is a latent size
  Form form = Form::kSwiGlu;     // of all experts, the shared one as well
  std::size_t latent = 0;        // 0: there is none

  bool has_shared() const { return shared_intermediate != 0; }
  bool has_gates() const { return form == Form::kSwiGlu; }
  /// Of the rows that go into the experts and come out of them; the shared one's are of `hidden`.
  std::size_t width() const { return latent != 0 ? latent : hidden; }
  /// What the router chooses from.
  std::size_t routed() const { return experts + zero_experts; }
  /// Weights of the experts that a token does not go through.
  std::size_t idle_parameters() const {
    return (experts - std::min(chosen, experts)) * (has_gates() ? 3 : 2) * width() * intermediate;
  }

  bool operator==(const MoeSpec&) const = default;
};

/// `block` is what llama.cpp puts before the names of the layer: "blk.3".
void add_tensors(TensorList& tensors, const MoeSpec& moe, const std::string& block);

std::optional<std::string> gpu_refusal(const MoeSpec& moe);
PartSizes describe(const MoeSpec& moe);

}  // namespace reprise::models
