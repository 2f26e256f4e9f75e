#include "models/cpu/mlp.h"

namespace reprise::models {

Mlp::Mlp(const MlpSpec& spec, const Checkpoint& checkpoint)
    : up_(checkpoint, spec.name + ".up_proj"), down_(checkpoint, spec.name + ".down_proj") {}

void Mlp::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t size = up_.outputs();
  float* inner = step.scratch.floats(step.rows * size);  // [rows, intermediate]
  up_.apply(step, x, step.rows, inner);
  step.threads.for_ranges(step.rows, 1, [&](std::size_t begin, std::size_t end) {
    step.kernels.relu_squared(inner + begin * size, (end - begin) * size);
  });
  down_.apply(step, inner, step.rows, y);
  step.scratch.reset(mark);
}

}  // namespace reprise::models
