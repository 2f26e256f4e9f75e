#pragma once
// Computes the experts a router chooses, for tests that pass the choice to another implementation.

#include <cstdint>
#include <vector>

#include "models/cpu/linear.h"
#include "models/parts/moe.h"

namespace reprise::models::test {

struct RouterChoice {
  std::vector<std::int32_t> experts;  // [rows, spec.chosen]
  std::vector<float> weights;         // [rows, spec.chosen]
};

/// `x` is f32 [step.rows, hidden]. Requires: a router without bias.
inline RouterChoice chosen_by_router(const MoeSpec& spec, const ModelFiles& files, cpu::Step& step,
                                     const float* x) {
  const cpu::Linear router(files, spec.name + ".gate");
  cpu::LinearInput input(x, step.rows);
  std::vector<float> logits(step.rows * router.outputs());
  router.apply_exactly(step, input, logits.data());
  RouterChoice out;
  out.experts.resize(step.rows * spec.chosen);
  out.weights.resize(step.rows * spec.chosen);
  std::vector<std::uint32_t> chosen(spec.chosen);
  std::vector<float> scratch(2 * spec.routed() + spec.groups);
  for (std::size_t row = 0; row < step.rows; ++row) {
    step.kernels.route_experts({.logits = logits.data() + row * spec.routed(),
                                .experts = spec.routed(),
                                .chosen = spec.chosen,
                                .normalized = spec.normalized,
                                .scores = spec.scores,
                                .bias = nullptr,
                                .groups = spec.groups,
                                .chosen_groups = spec.chosen_groups,
                                .epsilon = spec.epsilon,
                                .scale = spec.scale,
                                .scratch = scratch.data(),
                                .expert = chosen.data(),
                                .weight = out.weights.data() + row * spec.chosen});
    for (std::size_t i = 0; i < spec.chosen; ++i) {
      out.experts[row * spec.chosen + i] = static_cast<std::int32_t>(chosen[i]);
    }
  }
  return out;
}

}  // namespace reprise::models::test
