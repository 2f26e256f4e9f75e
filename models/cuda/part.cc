#include "models/cuda/part.h"

#include <algorithm>

#include "base/check.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {

std::size_t Mixer::workspace(const StepSize& size) const {
  const auto width = static_cast<std::size_t>(in_.weight.rows + out_.weight.columns);
  return size.padded() * width * size.element() + 2 * Workspace::kAlignment + mixing_workspace(size);
}

template <class Row>
void Mixer::apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t rows = step.size.padded();
  auto* projected = workspace.take<Row>(rows * static_cast<std::size_t>(in_.weight.rows));
  auto* mixed = workspace.take<Row>(rows * static_cast<std::size_t>(out_.weight.columns));
  step.multiply(x, in_, projected, kRowsOf<Row>);
  mix(step, projected, mixed);
  step.multiply(mixed, out_, to);
  workspace.reset(mark);
}

void Mixer::apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  if (step.size.precise) return apply_rows<float>(step, x, to);
  apply_rows<gc::Bf16>(step, x, to);
}

void Mixer::admit(const Admission& admission, gc::GemmOutput output) const {
  admission.admit(in_, gc::GemmOutput::kBf16);
  for (const InnerProduct& inner : inner_products()) admission.admit(*inner.linear, inner.output);
  admission.admit(out_, output);
}

std::vector<const DeviceLinear*> Mixer::adaptable() const {
  std::vector<const DeviceLinear*> linears = {&in_, &out_};
  for (const InnerProduct& inner : inner_products()) {
    if (inner.adapts) linears.push_back(inner.linear);
  }
  return linears;
}

std::size_t ResidualStep::workspace(const StepSize& size, std::size_t hidden) const {
  const std::size_t elements = size.padded() * hidden;
  std::size_t most = 0;
  for (const auto& part : parts) most = std::max(most, part->workspace(size));
  for (const auto& part : late_parts) most = std::max(most, part->workspace(size));
  return most + (parts.size() + late_parts.size()) * Workspace::rounded(elements * size.element()) +
         2 * Workspace::rounded(elements * sizeof(float));
}

template <class Row>
PartInput ResidualStep::normed_rows(const CudaStep& step, const float* x, std::size_t hidden,
                                    float factor) const {
  const auto size = static_cast<int>(hidden);
  auto* to = step.workspace.take<Row>(step.size.padded() * hidden);
  if (norm) {
    gc::rms_norm(x, nullptr, step.size.rows, size, norm->rows(), factor, to, step.stream);
  } else {
    gc::scale_rows(x, step.size.rows, size, factor, to, step.stream);
  }
  return PartInput::of(to);
}

PartInput ResidualStep::normed(const CudaStep& step, const float* x, std::size_t hidden, float factor) const {
  if (step.size.precise) return normed_rows<float>(step, x, hidden, factor);
  const auto size = static_cast<int>(hidden);
  if (!norm || !norm->can_use_decoding() || step.phase != Phase::kDecode || size % 8 != 0) {
    return normed_rows<gc::Bf16>(step, x, hidden, factor);
  }
  auto* to = step.workspace.take<gc::Bf16>(step.size.padded() * hidden);
  gc::norm_for_decode(x, step.size.rows, size, norm->rows(), factor, to, step.stream);
  return PartInput::of(to);
}

bool ResidualStep::can_defer_norm() const {
  return parts.size() == 1 && late_parts.empty() && !begins_late && !ends_late && !norm_after &&
         output_of(0) == gc::GemmOutput::kAddF32 && parts.front()->defers_norm();
}

bool ResidualStep::can_read_unscaled() const {
  return parts.size() == 1 && late_parts.empty() && norm && norm->can_use_decoding() &&
         parts.front()->reads_unscaled();
}

NormAhead ResidualStep::read_unscaled() {
  REPRISE_CHECK(can_read_unscaled(), "rows with a deferred norm were given to a step that cannot read them");
  reads_unscaled_ = true;
  return {.norm = norm->rows(), .factor = scales.front().in};
}

std::vector<PartInput> ResidualStep::read(const CudaStep& step, const float* x, std::size_t hidden) const {
  if (reads_unscaled_ && step.unscaled.x != nullptr) {
    gc::DeferredNormRows rows = step.unscaled;
    rows.eps = norm->kind.eps;
    return {{.x = nullptr, .wide = nullptr, .raw = {}, .unscaled = rows}};
  }
  // Only a single part may read the residual directly: a second one would see what the first added.
  if (parts.size() == 1 && late_parts.empty() && norm && norm->can_use_decoding() &&
      parts.front()->takes_raw(step)) {
    return {{.x = nullptr,
             .wide = nullptr,
             .raw = {.x = x, .norm = norm->rows(), .factor = scales.front().in},
             .unscaled = {}}};
  }
  std::vector<PartInput> inputs;
  std::vector<float> factors;  // one per input
  for (std::size_t i = 0; i < parts.size() + late_parts.size(); ++i) {
    const float in = i < parts.size() ? scales[i].in : 1;
    const auto same = std::find(factors.begin(), factors.end(), in);
    const auto at = static_cast<std::size_t>(same - factors.begin());
    inputs.push_back(same == factors.end() ? normed(step, x, hidden, in) : inputs[at]);
    factors.push_back(in);
  }
  return inputs;
}

void ResidualStep::apply(const CudaStep& step, float* x, std::size_t hidden) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t elements = step.size.padded() * hidden;
  const auto size = static_cast<int>(hidden);
  const int rows = step.size.rows;
  const std::vector<PartInput> inputs = read(step, x, hidden);  // before any part adds to x
  float* sum = x;
  if (norm_after) {
    sum = workspace.take<float>(elements);
    gc::fill(reinterpret_cast<std::byte*>(sum), 0, elements * sizeof(float), step.stream);
  }
  std::optional<gc::DeferredNormOutput> next;
  if (left_ && step.unscaled.x != nullptr) next = left_->into(step.unscaled);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (output_of(i) == gc::GemmOutput::kAddF32) {
      parts[i]->apply(step, inputs[i],
                      {.y = sum, .how = gc::GemmOutput::kAddF32, .next = next ? &*next : nullptr});
      continue;
    }
    const std::size_t before = workspace.mark();
    auto* made = workspace.take<float>(elements);
    parts[i]->apply(step, inputs[i], {.y = made, .how = gc::GemmOutput::kF32});
    gc::add_rows(made, rows, size, factor(i), sum, step.stream);
    workspace.reset(before);
  }
  if (begins_late) {
    gc::fill(reinterpret_cast<std::byte*>(step.late), 0, elements * sizeof(float), step.stream);
  }
  for (std::size_t i = 0; i < late_parts.size(); ++i) {
    late_parts[i]->apply(step, inputs[parts.size() + i], {.y = step.late, .how = gc::GemmOutput::kAddF32});
  }
  if (norm_after) gc::add_normed_rows(sum, rows, size, norm_after->rows(), multiplier, x, step.stream);
  if (ends_late) gc::add_rows(step.late, rows, size, 1, x, step.stream);
  workspace.reset(mark);
}

std::size_t ResidualStep::compaction_workspace(std::size_t tokens, const KvBudget& budget) const {
  std::size_t most = 0;
  for (const auto* some : {&parts, &late_parts}) {
    for (const auto& part : *some) most = std::max(most, part->compaction_workspace(tokens, budget));
  }
  return most;
}

void ResidualStep::compact(const CudaCompaction& prompt) const {
  for (const auto& part : parts) part->compact(prompt);
  for (const auto& part : late_parts) part->compact(prompt);
}

void ResidualStep::admit(const Admission& admission) const {
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i]->admit(admission, output_of(i));
  for (const auto& part : late_parts) part->admit(admission, gc::GemmOutput::kAddF32);
}

DeviceNorm build_norm(const NormSpec& spec, BuildContext& context) {
  const auto vector = [&](const char* which) {
    return context.weights.vector(load_vector(context.files, spec.name + which));
  };
  return {
      .weight = vector(".weight"), .bias = spec.kind.centered ? vector(".bias") : nullptr, .kind = spec.kind};
}

std::vector<ResidualStep> build_layer(const LayerSpec& spec, BuildContext& context) {
  const auto make = [&](const auto& one) { return make_part(one, context); };
  std::vector<ResidualStep> steps;
  bool has_late = false;
  for (const ResidualSpec& step : spec.steps) {
    ResidualStep& out = steps.emplace_back();
    if (step.norm) out.norm = build_norm(*step.norm, context);
    for (const PartSpec& part : step.parts) {
      out.parts.push_back(std::visit(make, part));
    }
    out.scales = step.scales.empty() ? std::vector<PartScale>(step.parts.size()) : step.scales;
    if (step.norm_after) out.norm_after = build_norm(*step.norm_after, context);
    out.multiplier = step.multiplier;
    for (const PartSpec& part : step.late_parts) {
      out.late_parts.push_back(std::visit(make, part));
      has_late = true;
    }
  }
  if (has_late) steps.front().begins_late = steps.back().ends_late = true;
  return steps;
}

}  // namespace reprise::models::cuda
