#include "models/cpu/swiglu.h"

namespace reprise::models {

SwiGlu::SwiGlu(const SwiGluSpec& spec, const Checkpoint& checkpoint)
    : gate_(checkpoint, spec.name + ".gate_proj"),
      up_(checkpoint, spec.name + ".up_proj"),
      down_(checkpoint, spec.name + ".down_proj") {}

void SwiGlu::apply(Step& step, const float* x, float* y) const {
  const std::size_t rows = step.rows;
  const std::size_t mark = step.scratch.mark();
  const std::size_t size = gate_.outputs();
  float* gate = step.scratch.floats(rows * size);  // [rows, intermediate]
  float* up = step.scratch.floats(rows * size);    // [rows, intermediate]
  LinearInput input(x, rows);
  gate_.apply(step, input, gate);
  up_.apply(step, input, up);
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    step.kernels.swiglu(gate + begin * size, up + begin * size, gate + begin * size, (end - begin) * size);
  });
  down_.apply(step, gate, rows, y);
  step.scratch.reset(mark);
}

}  // namespace reprise::models
