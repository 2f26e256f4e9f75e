#include "models/cpu/part.h"

#include <algorithm>

#include "models/weight_tensors.h"

namespace reprise::models::cpu {

RmsNorm::RmsNorm(const ModelFiles& files, const NormSpec& spec)
    : weight_(load_vector(files, spec.name + ".weight")), kind_(spec.kind) {}

void RmsNorm::apply_here(const gpu::Kernels& kernels, const float* x, std::size_t rows, float* y) const {
  const std::size_t size = weight_.size();
  kernels.rms_norm(x, weight_.data(), kind_.offset, kind_.eps, y, rows, size, size);
}

void RmsNorm::apply(Step& step, const float* x, std::size_t rows, float* y) const {
  const std::size_t size = weight_.size();
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    apply_here(step.kernels, x + begin * size, end - begin, y + begin * size);
  });
}

Norm::Norm(const ModelFiles& files, const NormSpec& spec) : rms_(files, spec) {
  if (spec.kind.centered) bias_ = load_vector(files, spec.name + ".bias");
}

void Norm::apply(Step& step, const float* x, std::size_t rows, float* y) const {
  if (bias_.empty()) return rms_.apply(step, x, rows, y);
  const std::size_t size = bias_.size();
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    step.kernels.layer_norm({.x = x + begin * size,
                             .weight = rms_.weight().data(),
                             .bias = bias_.data(),
                             .eps = rms_.kind().eps,
                             .y = y + begin * size,
                             .rows = end - begin,
                             .groups = 1,
                             .size = size});
  });
}

void ResidualStep::apply_part(const Part& part, const PartScale& scale, Step& step, const float* x,
                              std::size_t count, float* y) {
  const std::size_t mark = step.scratch.mark();
  if (scale.in != 1) {
    float* scaled = step.scratch.floats(count);
    std::copy_n(x, count, scaled);
    step.kernels.scale(scale.in, scaled, count);
    x = scaled;
  }
  {
    const traces::Zone zone(part.site());
    part.apply(step, x, y);
  }
  if (scale.out != 1) step.kernels.scale(scale.out, y, count);
  step.scratch.reset(mark);
}

void ResidualStep::apply(Step& step, float* x, float* late, std::size_t hidden) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t count = step.rows * hidden;
  const float* read = x;
  if (norm) {
    float* normed = step.scratch.floats(count);
    norm->apply(step, x, step.rows, normed);
    read = normed;
  }
  float* change = step.scratch.floats(count);
  const auto scale_of = [&](std::size_t i) { return scales.empty() ? PartScale{} : scales[i]; };
  const auto add_part = [&](const Part& part, const PartScale& scale, float* sum) {
    const std::size_t before = step.scratch.mark();
    float* more = step.scratch.floats(count);
    apply_part(part, scale, step, read, count, more);
    step.kernels.add(more, sum, count);
    step.scratch.reset(before);
  };
  apply_part(*parts.front(), scale_of(0), step, read, count, change);
  for (std::size_t i = 1; i < parts.size(); ++i) add_part(*parts[i], scale_of(i), change);
  for (const std::unique_ptr<Part>& part : late_parts) add_part(*part, {}, late);
  if (norm_after) norm_after->apply(step, change, step.rows, change);
  if (multiplier != 1) step.kernels.scale(multiplier, change, count);
  step.threads.for_ranges(step.rows, 1, [&](std::size_t begin, std::size_t end) {
    step.kernels.add(change + begin * hidden, x + begin * hidden, (end - begin) * hidden);
  });
  step.scratch.reset(mark);
}

void Layer::apply(Step& step, float* x, std::size_t hidden) const {
  const bool has_late = std::any_of(steps.begin(), steps.end(),
                                    [](const ResidualStep& one) { return !one.late_parts.empty(); });
  if (!has_late) {
    for (const ResidualStep& one : steps) one.apply(step, x, nullptr, hidden);
    return;
  }
  const std::size_t mark = step.scratch.mark();
  const std::size_t count = step.rows * hidden;
  float* late = step.scratch.floats(count);
  std::fill_n(late, count, 0.0F);
  for (const ResidualStep& one : steps) one.apply(step, x, late, hidden);
  step.kernels.add(late, x, count);
  step.scratch.reset(mark);
}

Layer build_layer(const LayerSpec& spec, BuildContext& context) {
  const auto make = [&](const auto& one) { return make_part(one, context); };
  Layer layer;
  for (const ResidualSpec& step : spec.steps) {
    ResidualStep& out = layer.steps.emplace_back();
    if (step.norm) out.norm.emplace(context.files, *step.norm);
    for (const PartSpec& part : step.parts) {
      out.parts.push_back(std::visit(make, part));
    }
    for (const PartSpec& part : step.late_parts) {
      out.late_parts.push_back(std::visit(make, part));
    }
    out.scales = step.scales;
    if (step.norm_after) out.norm_after.emplace(context.files, *step.norm_after);
    out.multiplier = step.multiplier;
  }
  return layer;
}

}  // namespace reprise::models::cpu
