#include "models/cpu/moe.h"

#include <algorithm>

#include "models/checkpoint.h"
#include "models/weight_tensors.h"

namespace reprise::models {

Moe::Moe(const MoeSpec& spec, const Checkpoint& checkpoint)
    : spec_(spec), router_(checkpoint, spec.name + ".gate"), experts_(spec, checkpoint) {
  if (spec.latent != 0) {
    latent_in_ = Linear(checkpoint, spec.name + ".fc1_latent_proj");
    latent_out_ = Linear(checkpoint, spec.name + ".fc2_latent_proj");
  }
  if (spec.correction_bias) bias_ = load_vector(checkpoint, spec.name + ".gate.e_score_correction_bias");
  if (!spec.has_shared()) return;
  if (spec.shared_gate) shared_gate_ = Linear(checkpoint, spec.name + ".shared_expert_gate");
  shared_.emplace_back(checkpoint, spec.name + ".shared_expert", spec.has_gates());
}

void Moe::prepare(const Preparation& how) const {
  experts_.prepare(how);
  for (const Expert& expert : shared_) expert.prepare(how);
  if (spec_.latent == 0) return;
  latent_in_.prepare(how);
  latent_out_.prepare(how);
}

Moe::Routes Moe::route(Step& step, LinearInput& x) const {
  const std::size_t rows = x.rows();
  Routes routes;
  routes.chosen.resize(rows * spec_.chosen);
  routes.weights.resize(rows * spec_.chosen);
  const std::size_t routed = spec_.routed();
  float* logits = step.scratch.floats(rows * routed);  // stays: x may have been prepared behind it
  router_.apply_exactly(step, x, logits);
  const std::size_t own = 2 * routed + spec_.groups;
  float* scratch = step.scratch.floats(rows * own);
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      step.kernels.route_experts({.logits = logits + row * routed,
                                  .experts = routed,
                                  .chosen = spec_.chosen,
                                  .normalised = spec_.normalised,
                                  .scores = spec_.scores,
                                  .bias = spec_.correction_bias ? bias_.data() : nullptr,
                                  .groups = spec_.groups,
                                  .chosen_groups = spec_.chosen_groups,
                                  .epsilon = spec_.epsilon,
                                  .scale = spec_.scale,
                                  .scratch = scratch + row * own,
                                  .expert = routes.chosen.data() + row * spec_.chosen,
                                  .weight = routes.weights.data() + row * spec_.chosen});
    }
  });
  if (spec_.has_shared()) {
    routes.shared_weights.assign(rows, 1.0F);
    if (spec_.shared_gate) {
      shared_gate_.apply_exactly(step, x, logits);  // [rows, 1]
      step.kernels.gate_sigmoid(logits, routes.shared_weights.data(), rows);
    }
  }
  return routes;
}

void Moe::apply_rows(Step& step, std::size_t first_row, const float* x, std::size_t rows, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t width = spec_.width();
  const float* narrow = x;  // [rows, width]: what the chosen experts see
  LinearInput input(x, rows, StepRows::together(first_row));
  if (spec_.latent != 0) {
    float* latent = step.scratch.floats(rows * width);
    latent_in_.apply(step, input, latent);
    narrow = latent;
  }
  LinearInput narrow_input(narrow, rows, StepRows::together(first_row));
  LinearInput& routed = spec_.latent != 0 ? narrow_input : input;
  const Routes routes = route(step, input);
  float* shared = spec_.has_shared() ? step.scratch.floats(rows * spec_.hidden) : nullptr;
  const Experts::Beside beside{
      .expert = spec_.has_shared() ? &shared_.front() : nullptr, .x = &input, .y = shared};
  float* sums = spec_.latent != 0 ? step.scratch.floats(rows * width) : y;  // [rows, width]
  experts_.sum(step, routed, {.experts = routes.chosen, .weights = routes.weights},
               spec_.has_shared() ? &beside : nullptr, sums);
  if (spec_.latent != 0) {
    LinearInput sum_input(sums, rows, StepRows::together(first_row));
    latent_out_.apply(step, sum_input, y);
  }
  if (spec_.has_shared()) {
    step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const std::size_t first = row * spec_.hidden;
        step.kernels.add_scaled(shared + first, routes.shared_weights[row], y + first, spec_.hidden);
      }
    });
  }
  step.scratch.reset(mark);
}

void Moe::apply(Step& step, const float* x, float* y) const {
  constexpr std::size_t kMost = Experts::kMostRowsAtOnce;
  for (std::size_t first = 0; first < step.rows; first += kMost) {
    apply_rows(step, first, x + first * spec_.hidden, std::min(kMost, step.rows - first),
               y + first * spec_.hidden);
  }
}

}  // namespace reprise::models
