// Mixtures of experts on the GPU (models/parts/moe.h). The router, the shared expert and the latent
// projections run on the GPU; the routed experts there or on the host (models/host_experts.h).

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "gpu/cuda/experts/experts.h"
#include "gpu/cuda/rows/rows.h"
#include "models/cuda/part.h"
#include "models/host_experts.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {
namespace {

gc::RouterShape router_of(const MoeSpec& spec) {
  return {.routed = static_cast<int>(spec.routed()),
          .experts = static_cast<int>(spec.experts),
          .chosen = static_cast<int>(spec.chosen),
          .normalized = spec.normalized,
          .scores = spec.scores,
          .groups = static_cast<int>(spec.groups),
          .chosen_groups = static_cast<int>(spec.chosen_groups),
          .epsilon = spec.epsilon,
          .scale = spec.scale};
}

std::unique_ptr<Part> shared_expert(const MoeSpec& spec, BuildContext& context) {
  const std::string name = spec.name + ".shared_expert";
  if (!spec.has_shared()) return nullptr;
  if (!spec.has_gates()) {
    MlpSpec mlp;
    mlp.name = name;
    return make_part(mlp, context);
  }
  SwiGluSpec gated;
  gated.name = name;
  return make_part(gated, context);
}

/// Returns whether a matrix has the format and shape of the experts' matrices.
bool is_like(const gc::ExpertWeights& experts, const DeviceLinear& linear) {
  return linear.is_fused() && linear.parts.size() == 1 && linear.parts[0].format == experts.one.format &&
         linear.parts[0].rows == experts.one.rows && linear.parts[0].columns == experts.one.columns;
}

class Moe : public Part {
 public:
  Moe(const MoeSpec& spec, BuildContext& context);
  bool takes_raw(const CudaStep& step) const override { return step.takes_raw(router_); }
  std::size_t workspace(const StepSize& size) const override;
  void apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;

 private:
  /// Routing and expert inputs of a step.
  template <class Row>
  struct Routed {
    const float* logits;  // [padded rows, router_.weight.rows]
    gc::RoutedRows tables;
    const Row* seen;  // [padded rows, width]: input of the routed experts
  };
  struct OnDevice {
    gc::ExpertWeights in;  // gate and up, or up only
    gc::ExpertWeights down;
    /// The shared expert has the format and shape of the others, so for few rows it is computed as one of
    /// them.
    bool has_shared = false;
  };

  /// Returns the gates of the shared expert; null: its output is added unscaled.
  gc::SharedExpert shared_gates(const float* logits) const;
  gc::SharedExpert apply_shared(const CudaStep& step, const PartInput& x, const float* logits) const;
  /// Returns the max number of routed rows of a step.
  std::size_t max_routed_rows(const StepSize& size) const;
  template <class Row>
  void apply_routed(const CudaStep& step, const PartInput& x, const float* logits,
                    const gc::RoutedRows& tables, const PartOutput& to) const;
  template <class Row>
  void apply_on_device(const CudaStep& step, const PartInput& x, const Routed<Row>& routed,
                       const PartOutput& to) const;
  void apply_on_host(const CudaStep& step, const PartInput& x, const Routed<gc::Bf16>& routed,
                     const PartOutput& to) const;
  /// Computes the experts' outputs [routed rows, width].
  void multiply_experts(const CudaStep& step, const Routed<gc::Bf16>& routed, const OnDevice& experts,
                        float* outputs) const;
  void multiply_experts(const CudaStep& step, const Routed<float>& routed, const OnDevice& experts,
                        float* outputs) const;
  /// Computes the experts on the host and copies their sums [padded rows, width] to the GPU. `meanwhile`
  /// enqueues GPU work to overlap with it.
  template <class Meanwhile>
  void sum_on_host(const CudaStep& step, const Routed<gc::Bf16>& routed, float* sums,
                   const Meanwhile& meanwhile) const;
  /// Applies the output projection of the latent to sums [padded rows, latent].
  void apply_latent_out(const CudaStep& step, const float* sums, const PartOutput& to) const;

  gc::RouterShape shape_;
  bool has_gates_;
  int hidden_;
  int width_;                       // of routed experts' inputs and outputs
  bool has_shared_gate_;            // false: its output is added unscaled
  DeviceLinear router_;             // followed by the shared expert's gate, if any
  const float* bias_ = nullptr;     // [routed]; null: none
  std::optional<OnDevice> device_;  // none: the experts are on the host
  HostExperts* host_;               // null: the experts are on the GPU
  std::size_t host_layer_ = 0;      // index of this layer in host_
  std::unique_ptr<Part> shared_;    // null: no shared expert
  std::optional<DeviceLinear> latent_in_;
  std::optional<DeviceLinear> latent_out_;
};

Moe::Moe(const MoeSpec& spec, BuildContext& context)
    : shape_(router_of(spec)),
      has_gates_(spec.has_gates()),
      hidden_(static_cast<int>(spec.hidden)),
      width_(static_cast<int>(spec.width())),
      has_shared_gate_(spec.has_shared() && spec.shared_gate),
      router_(context.weights.linear(
          has_shared_gate_ ? std::vector<std::string>{spec.name + ".gate", spec.name + ".shared_expert_gate"}
                           : std::vector<std::string>{spec.name + ".gate"})),
      host_(context.on_host.contains(spec.name) ? context.experts : nullptr),
      shared_(shared_expert(spec, context)) {
  WeightStore& weights = context.weights;
  if (host_ != nullptr) {
    host_layer_ = host_->add(spec, context.files);
  } else {
    const std::string experts = spec.name + ".experts.";
    device_ = {.in = weights.experts(experts, spec.experts,
                                     spec.has_gates() ? std::vector<std::string>{".gate_proj", ".up_proj"}
                                                      : std::vector<std::string>{".up_proj"}),
               .down = weights.experts(experts, spec.experts, {".down_proj"})};
    const std::optional<GatedProducts> shared = shared_ ? shared_->gated_products() : std::nullopt;
    if (shared && spec.latent == 0 && is_like(device_->in, shared->in) &&
        is_like(device_->down, shared->out)) {
      device_->in.shared = shared->in.parts[0].data;
      device_->down.shared = shared->out.parts[0].data;
      device_->has_shared = true;
    }
  }
  if (spec.correction_bias) {
    bias_ = weights.vector(load_vector(context.files, spec.name + ".gate.e_score_correction_bias"));
  }
  if (spec.latent != 0) {
    latent_in_ = weights.linear({spec.name + ".fc1_latent_proj"});
    latent_out_ = weights.linear({spec.name + ".fc2_latent_proj"});
  }
}

std::size_t Moe::max_routed_rows(const StepSize& size) const {
  return size.padded() * static_cast<std::size_t>(shape_.chosen) + gc::RoutedRows::kFewRows;
}

std::size_t Moe::workspace(const StepSize& size) const {
  const auto sized = [](std::size_t count, std::size_t element) {
    return Workspace::rounded(count * element);
  };
  const std::size_t rows = size.padded();
  const std::size_t max_routed = max_routed_rows(size);
  const auto width = static_cast<std::size_t>(width_);
  std::size_t bytes = sized(rows * static_cast<std::size_t>(router_.weight.rows), sizeof(float)) +
                      sized(rows * static_cast<std::size_t>(hidden_), sizeof(gc::Bf16)) +
                      Workspace::rounded(gc::RoutedRows::bytes(static_cast<int>(rows), shape_));
  if (device_) {
    const auto inner = static_cast<std::size_t>(device_->down.one.columns);
    bytes += sized(max_routed * inner, size.element()) + sized(max_routed * width, sizeof(float));
    if (size.precise) {
      bytes += sized(max_routed * static_cast<std::size_t>(device_->in.one.rows), sizeof(float)) +
               2 * (sized(rows * width, sizeof(gc::Bf16)) + sized(max_routed * inner, sizeof(gc::Bf16)));
    }
  }
  if (latent_in_) bytes += 2 * sized(rows * width, size.element());
  if (latent_in_ || host_ != nullptr) bytes += sized(rows * width, sizeof(float));
  if (shared_) {
    bytes += sized(rows * static_cast<std::size_t>(hidden_), sizeof(float)) + shared_->workspace(size);
  }
  return bytes;
}

gc::SharedExpert Moe::shared_gates(const float* logits) const {
  return {.gates = has_shared_gate_ ? logits + shape_.routed : nullptr, .stride = router_.weight.rows};
}

gc::SharedExpert Moe::apply_shared(const CudaStep& step, const PartInput& x, const float* logits) const {
  if (!shared_) return {};
  gc::SharedExpert shared = shared_gates(logits);
  auto* made = step.workspace.take<float>(step.size.padded() * static_cast<std::size_t>(hidden_));
  shared_->apply(step, x, {.y = made, .how = gc::GemmOutput::kF32});
  shared.made = made;
  return shared;
}

void Moe::apply_latent_out(const CudaStep& step, const float* sums, const PartOutput& to) const {
  if (step.size.precise) return step.multiply(sums, *latent_out_, to.y, to.how);
  auto* narrowed = step.workspace.take<gc::Bf16>(step.size.padded() * static_cast<std::size_t>(width_));
  gc::scale_rows(sums, step.size.rows, width_, 1, narrowed, step.stream);
  step.multiply(narrowed, *latent_out_, to.y, to.how);
}

void Moe::multiply_experts(const CudaStep& step, const Routed<gc::Bf16>& routed, const OnDevice& experts,
                           float* outputs) const {
  const gc::RoutedRows& tables = routed.tables;
  const int columns = experts.down.one.columns;
  auto* inner = step.workspace.take<gc::Bf16>(max_routed_rows(step.size) * static_cast<std::size_t>(columns));
  if (has_gates_) {
    const gc::GatedRows gated{.y = inner, .act = gc::GateFunction::kSilu, .gate_factor = 1};
    gc::experts_gated(routed.seen, experts.in, tables, gated, step.stream);
  } else {
    gc::experts_product(routed.seen, false, experts.in, tables, inner, gc::GemmOutput::kBf16, step.stream);
    constexpr int kMax = 32768;  // max rows per launch
    const int rows = step.size.rows * shape_.chosen;
    for (int first = 0; first < rows; first += kMax) {
      gc::relu_squared(inner + static_cast<std::size_t>(first) * static_cast<std::size_t>(columns),
                       std::min(kMax, rows - first), columns, step.stream);
    }
  }
  gc::experts_product(inner, true, experts.down, tables, outputs, gc::GemmOutput::kF32, step.stream);
}

void Moe::multiply_experts(const CudaStep& step, const Routed<float>& routed, const OnDevice& experts,
                           float* outputs) const {
  Workspace& workspace = step.workspace;
  const std::size_t max_routed = max_routed_rows(step.size);
  const int columns = experts.down.one.columns;
  const int rows = step.size.rows * shape_.chosen;  // routed rows
  const auto multiply = [&](const float* x, int x_rows, bool x_is_routed, const gc::ExpertWeights& weights,
                            std::size_t elements, float* y) {
    const gc::TwoTerms terms{.high = workspace.take<gc::Bf16>(elements),
                             .low = workspace.take<gc::Bf16>(elements)};
    gc::split_rows(x, x_rows, weights.one.columns, terms, step.stream);
    gc::experts_product(terms.high, x_is_routed, weights, routed.tables, y, gc::GemmOutput::kF32,
                        step.stream);
    gc::experts_product(terms.low, x_is_routed, weights, routed.tables, y, gc::GemmOutput::kAddF32,
                        step.stream);
  };
  auto* made = workspace.take<float>(max_routed * static_cast<std::size_t>(experts.in.one.rows));
  multiply(routed.seen, step.size.rows, false, experts.in,
           step.size.padded() * static_cast<std::size_t>(width_), made);
  float* inner = made;
  if (has_gates_) {
    inner = workspace.take<float>(max_routed * static_cast<std::size_t>(columns));
    gc::gate_rows(made, rows, columns, gc::GateFunction::kSilu, 1, inner, step.stream);
  } else {
    gc::relu_squared(inner, rows, columns, step.stream);
  }
  multiply(inner, rows, true, experts.down, max_routed * static_cast<std::size_t>(columns), outputs);
}

template <class Row>
void Moe::apply_on_device(const CudaStep& step, const PartInput& x, const Routed<Row>& routed,
                          const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const gc::RoutedRows& tables = routed.tables;
  // In prefill and in precise steps the shared expert uses the GEMMs of other parts.
  const bool with_shared =
      device_->has_shared && tables.are_few() && step.phase == Phase::kDecode && !step.size.precise;
  OnDevice experts = *device_;
  if (!with_shared) experts.in.shared = experts.down.shared = nullptr;
  const std::size_t padded = step.size.padded();
  const int rows = step.size.rows;
  gc::SharedExpert shared = with_shared ? shared_gates(routed.logits) : apply_shared(step, x, routed.logits);
  auto* outputs = workspace.take<float>(max_routed_rows(step.size) * static_cast<std::size_t>(width_));
  if (with_shared) {
    shared.made = outputs + static_cast<std::size_t>(tables.entries) * static_cast<std::size_t>(width_);
  }
  multiply_experts(step, routed, experts, outputs);

  gc::ExpertSum<Row> sum{.outputs = outputs,
                         .zero = routed.seen,
                         .shared = shared,
                         .y = to.y,
                         .adds = to.how == gc::GemmOutput::kAddF32};
  if (!latent_in_) return gc::sum_experts(shape_, tables, sum, rows, width_, step.stream);
  sum.y = workspace.take<float>(padded * static_cast<std::size_t>(width_));
  sum.shared = {};
  sum.adds = false;
  gc::sum_experts(shape_, tables, sum, rows, width_, step.stream);
  apply_latent_out(step, sum.y, to);
  if (shared_) gc::add_shared_expert(shared, rows, hidden_, to.y, step.stream);
}

template <class Meanwhile>
void Moe::sum_on_host(const CudaStep& step, const Routed<gc::Bf16>& routed, float* sums,
                      const Meanwhile& meanwhile) const {
  const auto width = static_cast<std::size_t>(width_);
  const auto rows = static_cast<std::size_t>(step.size.slices_rows);
  const auto all_rows = static_cast<std::size_t>(step.size.rows);
  const std::size_t choice_bytes =
      Workspace::rounded(rows * static_cast<std::size_t>(shape_.chosen) * sizeof(float));
  const std::size_t x_bytes = rows * width * sizeof(gc::Bf16);
  const HostStaging::Scratch scratch =
      step.staging->take(2 * choice_bytes + x_bytes, all_rows * width * sizeof(float));
  std::byte* weights = scratch.down + choice_bytes;
  std::byte* x = weights + choice_bytes;
  const std::size_t choices = rows * static_cast<std::size_t>(shape_.chosen) * sizeof(float);
  const auto fetch = [&](std::byte* to, const void* from, std::size_t bytes) {
    gc::copy_to_host(to, static_cast<const std::byte*>(from), bytes, step.stream);
  };
  fetch(scratch.down, routed.tables.chosen, choices);
  fetch(weights, routed.tables.weights, choices);
  fetch(x, routed.seen, x_bytes);
  step.staging->wait();
  meanwhile();
  auto* made = reinterpret_cast<float*>(scratch.up);
  host_->sum(host_layer_,
             {.count = rows,
              .x = reinterpret_cast<const gc::Bf16*>(x),
              .experts = reinterpret_cast<const std::int32_t*>(scratch.down),
              .weights = reinterpret_cast<const float*>(weights)},
             made);
  std::fill_n(made + rows * width, (all_rows - rows) * width, 0.0F);
  gc::copy_to_device(reinterpret_cast<std::byte*>(sums), made, all_rows * width * sizeof(float), step.stream);
}

void Moe::apply_on_host(const CudaStep& step, const PartInput& x, const Routed<gc::Bf16>& routed,
                        const PartOutput& to) const {
  const int rows = step.size.rows;
  auto* sums = step.workspace.take<float>(step.size.padded() * static_cast<std::size_t>(width_));
  gc::SharedExpert shared;
  sum_on_host(step, routed, sums, [&] { shared = apply_shared(step, x, routed.logits); });
  if (latent_in_) {
    apply_latent_out(step, sums, to);
    if (shared_) gc::add_shared_expert(shared, rows, hidden_, to.y, step.stream);
    return;
  }
  if (shared_) gc::add_shared_expert(shared, rows, hidden_, sums, step.stream);
  if (to.how == gc::GemmOutput::kAddF32) {
    gc::add_rows(sums, rows, hidden_, 1, to.y, step.stream);
  } else {
    gc::copy_on_device(to.y, sums,
                       static_cast<std::size_t>(rows) * static_cast<std::size_t>(hidden_) * sizeof(float),
                       step.stream);
  }
}

template <class Row>
void Moe::apply_routed(const CudaStep& step, const PartInput& x, const float* logits,
                       const gc::RoutedRows& tables, const PartOutput& to) const {
  const Row* seen = x.rows<Row>();
  if (latent_in_) {
    auto* latent = step.workspace.take<Row>(step.size.padded() * static_cast<std::size_t>(width_));
    step.multiply(seen, *latent_in_, latent, kRowsOf<Row>);
    seen = latent;
  }
  const Routed<Row> routed{.logits = logits, .tables = tables, .seen = seen};
  if (device_) return apply_on_device(step, x, routed, to);
  if constexpr (std::is_same_v<Row, gc::Bf16>) {
    apply_on_host(step, x, routed, to);
  } else {
    REPRISE_CHECK(false, "a precise step was given experts on the host");
  }
}

void Moe::apply(const CudaStep& step, const PartInput& from, const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t padded = step.size.padded();
  const int rows = step.size.rows;
  auto* logits = workspace.take<float>(padded * static_cast<std::size_t>(router_.weight.rows));
  PartInput x = from;
  if (from.raw.x != nullptr) {  // the router's GEMM normalizes, and writes the rows for the others
    auto* normed = workspace.take<gc::Bf16>(padded * static_cast<std::size_t>(hidden_));
    gc::NormedRows raw = from.raw;
    raw.kept = normed;
    x.raw = raw;
    step.multiply(x, router_, logits, gc::GemmOutput::kF32);
    x = PartInput::of(normed);
  } else {
    step.multiply(x, router_, logits, gc::GemmOutput::kF32);
  }
  const gc::RoutedRows tables = gc::RoutedRows::in(
      workspace.bytes(gc::RoutedRows::bytes(static_cast<int>(padded), shape_)), rows, shape_);
  if (device_) {
    gc::route_and_sort(shape_, logits, router_.weight.rows, bias_, rows, tables, step.stream);
  } else {
    gc::route_rows(shape_, logits, router_.weight.rows, bias_, rows, tables, step.stream);
  }
  if (step.size.precise) {
    apply_routed<float>(step, x, logits, tables, to);
  } else {
    apply_routed<gc::Bf16>(step, x, logits, tables, to);
  }
  workspace.reset(mark);
}

void Moe::admit(const Admission& admission, gc::GemmOutput output) const {
  admission.admit(router_, gc::GemmOutput::kF32);
  if (latent_in_) {
    admission.admit(*latent_in_, gc::GemmOutput::kBf16);
    admission.admit(*latent_out_, output);
  }
  if (shared_) shared_->admit(admission, gc::GemmOutput::kF32);
}

}  // namespace

std::unique_ptr<Part> make_part(const MoeSpec& spec, BuildContext& context) {
  return std::make_unique<Moe>(spec, context);
}

}  // namespace reprise::models::cuda
