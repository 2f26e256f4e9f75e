#include "models/cpu/layers.h"

#include <algorithm>

#include "models/checkpoint.h"
#include "models/weight_tensors.h"

namespace reprise::models {

RmsNorm::RmsNorm(const Checkpoint& checkpoint, const NormSpec& spec)
    : weight_(load_vector(checkpoint, spec.name + ".weight")), kind_(spec.kind) {}

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

void ResidualStep::apply_part(std::size_t index, Step& step, const float* x, std::size_t count,
                              float* y) const {
  const std::size_t mark = step.scratch.mark();
  const Part& part = *parts[index];
  const PartScale scale = scales.empty() ? PartScale{} : scales[index];
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

void ResidualStep::apply(Step& step, float* x, std::size_t hidden) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t count = step.rows * hidden;
  const float* read = x;
  if (norm) {
    float* normed = step.scratch.floats(count);
    norm->apply(step, x, step.rows, normed);
    read = normed;
  }
  float* change = step.scratch.floats(count);
  apply_part(0, step, read, count, change);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t before = step.scratch.mark();
    float* more = step.scratch.floats(count);
    apply_part(i, step, read, count, more);
    step.kernels.add(more, change, count);
    step.scratch.reset(before);
  }
  if (norm_after) norm_after->apply(step, change, step.rows, change);
  if (multiplier != 1) step.kernels.scale(multiplier, change, count);
  step.kernels.add(change, x, count);
  step.scratch.reset(mark);
}

}  // namespace reprise::models
