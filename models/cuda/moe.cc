#include <algorithm>

#include "models/cuda/layers.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {
namespace {

gc::RouterShape router_of(const MoeSpec& spec) {
  return {.routed = static_cast<int>(spec.routed()),
          .experts = static_cast<int>(spec.experts),
          .chosen = static_cast<int>(spec.chosen),
          .normalised = spec.normalised,
          .scores = spec.scores,
          .groups = static_cast<int>(spec.groups),
          .chosen_groups = static_cast<int>(spec.chosen_groups),
          .epsilon = spec.epsilon,
          .scale = spec.scale};
}

std::unique_ptr<Part> shared_expert(const MoeSpec& spec, WeightStore& weights) {
  const std::string name = spec.name + ".shared_expert";
  if (!spec.has_shared()) return nullptr;
  if (!spec.has_gates()) {
    MlpSpec mlp;
    mlp.name = name;
    return std::make_unique<Mlp>(mlp, weights);
  }
  SwiGluSpec gated;
  gated.name = name;
  return std::make_unique<SwiGlu>(gated, weights);
}

}  // namespace

Moe::Moe(const MoeSpec& spec, const Checkpoint& checkpoint, WeightStore& weights)
    : shape_(router_of(spec)),
      has_gates_(spec.has_gates()),
      hidden_(static_cast<int>(spec.hidden)),
      has_shared_gate_(spec.has_shared() && spec.shared_gate),
      router_(weights.linear(
          has_shared_gate_ ? std::vector<std::string>{spec.name + ".gate", spec.name + ".shared_expert_gate"}
                           : std::vector<std::string>{spec.name + ".gate"})),
      in_(weights.experts(spec.name + ".experts.", spec.experts,
                          spec.has_gates() ? std::vector<std::string>{".gate_proj", ".up_proj"}
                                           : std::vector<std::string>{".up_proj"})),
      down_(weights.experts(spec.name + ".experts.", spec.experts, {".down_proj"})),
      shared_(shared_expert(spec, weights)) {
  if (spec.correction_bias) {
    bias_ = weights.vector(load_vector(checkpoint, spec.name + ".gate.e_score_correction_bias"));
  }
  if (spec.latent != 0) {
    latent_in_ = weights.linear({spec.name + ".fc1_latent_proj"});
    latent_out_ = weights.linear({spec.name + ".fc2_latent_proj"});
  }
}

std::size_t Moe::workspace(const StepSize& size) const {
  const auto sized = [](std::size_t count, std::size_t element) {
    return Workspace::rounded(count * element);
  };
  const std::size_t rows = size.padded();
  const std::size_t places = rows * static_cast<std::size_t>(shape_.chosen);
  const auto width = static_cast<std::size_t>(in_.one.columns);
  std::size_t bytes = sized(rows * static_cast<std::size_t>(router_.weight.rows), sizeof(float)) +
                      Workspace::rounded(gc::ExpertPlaces::bytes(static_cast<int>(rows), shape_)) +
                      sized(places * static_cast<std::size_t>(down_.one.columns), sizeof(gc::Bf16)) +
                      sized(places * width, sizeof(float));
  if (latent_in_) bytes += 2 * sized(rows * width, sizeof(gc::Bf16)) + sized(rows * width, sizeof(float));
  if (shared_) {
    bytes += sized(rows * static_cast<std::size_t>(hidden_), sizeof(float)) + shared_->workspace(size);
  }
  return bytes;
}

void Moe::apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t padded = step.size.padded();
  const int rows = step.size.rows;
  const int width = in_.one.columns;
  const std::size_t narrow_elements = padded * static_cast<std::size_t>(width);
  auto* logits = workspace.take<float>(padded * static_cast<std::size_t>(router_.weight.rows));
  step.multiply(x.x, router_, logits, gc::GemmOutput::kF32);
  const gc::ExpertPlaces places = gc::ExpertPlaces::in(
      workspace.bytes(gc::ExpertPlaces::bytes(static_cast<int>(padded), shape_)), rows, shape_);
  gc::route_and_place(shape_, logits, router_.weight.rows, bias_, rows, places, step.stream);
  gc::SharedExpert shared;
  if (shared_) {
    auto* made = workspace.take<float>(padded * static_cast<std::size_t>(hidden_));
    shared_->apply(step, x, {.y = made, .how = gc::GemmOutput::kF32});
    shared.made = made;
    if (has_shared_gate_) shared.gates = logits + shape_.routed;
    shared.stride = router_.weight.rows;
  }

  const gc::Bf16* seen = x.x;  // [rows, width]: what the chosen experts see
  if (latent_in_) {
    auto* latent = workspace.take<gc::Bf16>(narrow_elements);
    step.multiply(x.x, *latent_in_, latent, gc::GemmOutput::kBf16);
    seen = latent;
  }
  const std::size_t most_places = padded * static_cast<std::size_t>(shape_.chosen);
  auto* inner = workspace.take<gc::Bf16>(most_places * static_cast<std::size_t>(down_.one.columns));
  auto* outputs = workspace.take<float>(most_places * static_cast<std::size_t>(width));
  if (has_gates_) {
    const gc::GatedRows gated{.y = inner, .act = gc::GateFunction::kSilu, .gate_factor = 1};
    gc::experts_gated(seen, in_, places, gated, step.stream);
  } else {
    gc::experts_product(seen, false, in_, places, inner, gc::GemmOutput::kBf16, step.stream);
    constexpr int kMost = 32768;  // rows of a launch
    for (int first = 0; first < rows * shape_.chosen; first += kMost) {
      gc::relu_squared(inner + static_cast<std::size_t>(first) * static_cast<std::size_t>(down_.one.columns),
                       std::min(kMost, rows * shape_.chosen - first), down_.one.columns, step.stream);
    }
  }
  gc::experts_product(inner, true, down_, places, outputs, gc::GemmOutput::kF32, step.stream);

  if (latent_in_) {
    auto* sums = workspace.take<float>(narrow_elements);
    auto* narrowed = workspace.take<gc::Bf16>(narrow_elements);
    gc::sum_experts(shape_, places,
                    {.outputs = outputs, .zero = seen, .shared = {}, .y = sums, .adds = false}, rows, width,
                    step.stream);
    gc::narrow_rows(sums, rows, width, 1, narrowed, step.stream);
    step.multiply(narrowed, *latent_out_, to.y, to.how);
    if (shared_) gc::add_shared_expert(shared, rows, hidden_, to.y, step.stream);
  } else {
    gc::sum_experts(shape_, places,
                    {.outputs = outputs,
                     .zero = seen,
                     .shared = shared,
                     .y = to.y,
                     .adds = to.how == gc::GemmOutput::kAddF32},
                    rows, width, step.stream);
  }
  workspace.reset(mark);
}

void Moe::admit(gc::PrefillGemm& gemm, gc::GemmOutput output, int most_rows) const {
  router_.admit(gemm, gc::GemmOutput::kF32, most_rows);
  if (latent_in_) {
    latent_in_->admit(gemm, gc::GemmOutput::kBf16, most_rows);
    latent_out_->admit(gemm, output, most_rows);
  }
  if (shared_) shared_->admit(gemm, gc::GemmOutput::kF32, most_rows);
}

}  // namespace reprise::models::cuda
