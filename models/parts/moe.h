#pragma once
// Mixture of experts: a router selects a few of many feed-forward experts for each token; optionally all
// tokens also pass through a shared expert. It has no state.
//
//   s = softmax(x gate^T) over all experts, or sigmoid(x gate^T)
//   selected: the `chosen` largest s + correction bias, ties to the lower index; if experts are grouped, only
//   from the best groups (gpu/expert_routing.h)
//   weight_e = s_e / (sum of the selected s + epsilon, if normalized) * scale
//   y = sum of weight_e * expert_e(x), in ascending order of e
//     + sigmoid(x shared_expert_gate^T) * shared_expert(x), or shared_expert(x) itself
//   expert(x) = down(silu(gate(x)) * up(x)), or down(relu(up(x))^2); a zero expert returns x
//
// With a latent size, routed experts get fc1_latent_proj(x), and their sum goes through fc2_latent_proj.
// Several shared experts are described as one with their total width.
//
// Tensors: `name`.gate [experts + zero experts, hidden] and optionally gate.e_score_correction_bias; for each
// expert e `name`.experts.e.gate_proj and up_proj [intermediate, hidden], down_proj [hidden, intermediate];
// with a shared expert `name`.shared_expert.gate_proj, up_proj [shared_intermediate, hidden], down_proj
// [hidden, shared_intermediate] and, if it is gated, `name`.shared_expert_gate [1, hidden]. Experts of the
// second form have no gate_proj. Latent: `name`.fc1_latent_proj [latent, hidden], fc2_latent_proj [hidden,
// latent]; the matrices of the experts then have `latent` instead of `hidden`. Files have separate matrices
// per expert (also named w1, w3, w2) or stack those of all experts, some with gate and up fused.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu/expert_routing.h"
#include "models/parts/part.h"

namespace reprise::models {

struct MoeSpec {
  enum class Form : std::uint8_t { kSwiGlu, kReluSquared };

  std::string name{};
  std::size_t hidden = 0;
  std::size_t experts = 0;
  std::size_t chosen = 0;               // experts per token: 1 to routed()
  std::size_t intermediate = 0;         // width of an expert
  bool normalized = true;               // divide the weights of the selected experts by their sum
  std::size_t shared_intermediate = 0;  // 0: no shared expert
  bool shared_gate = true;
  gpu::RouterScores scores = gpu::RouterScores::kSoftmax;
  bool correction_bias = false;
  std::size_t groups = 1;         // groups of consecutive experts, equal in size
  std::size_t chosen_groups = 1;  // 1 to groups
  float epsilon = 0;
  float scale = 1;
  std::size_t zero_experts = 0;  // after the others; 0 if there is a latent size
  Form form = Form::kSwiGlu;     // of all experts, the shared one included
  std::size_t latent = 0;        // 0: no latent projection

  bool has_shared() const { return shared_intermediate != 0; }
  bool has_gates() const { return form == Form::kSwiGlu; }
  /// Row size of routed experts' inputs and outputs; the shared expert's is `hidden`.
  std::size_t width() const { return latent != 0 ? latent : hidden; }
  /// The number of experts that the router selects from, zero experts included.
  std::size_t routed() const { return experts + zero_experts; }
  /// The number of expert parameters that a token does not use.
  std::size_t idle_parameters() const {
    return (experts - std::min(chosen, experts)) * (has_gates() ? 3 : 2) * width() * intermediate;
  }

  bool operator==(const MoeSpec&) const = default;
};

void add_tensors(TensorList& tensors, const MoeSpec& moe, const std::string& block);

std::optional<std::string> gpu_refusal(const MoeSpec& moe);
PartSizes describe(const MoeSpec& moe);

}  // namespace reprise::models
