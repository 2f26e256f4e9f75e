#include "models/cpu/layers.h"

namespace reprise::models {

void RmsNorm::apply(Step& step, const float* x, std::size_t rows, float* y) const {
  const std::size_t size = weight.size();
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    step.kernels.rms_norm(x + begin * size, weight.data(), offset, eps, y + begin * size, end - begin, size,
                          size);
  });
}

void Layer::apply(Step& step, float* x, std::size_t hidden) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t count = step.rows * hidden;
  float* normed = step.scratch.floats(count);
  float* change = step.scratch.floats(count);
  mixer_norm.apply(step, x, step.rows, normed);
  mixer->apply(step, normed, change);
  step.kernels.add(change, x, count);
  feed_forward_norm.apply(step, x, step.rows, normed);
  feed_forward->apply(step, normed, step.rows, change);
  step.kernels.add(change, x, count);
  step.scratch.reset(mark);
}

}  // namespace reprise::models
