#include "models/cpu/swiglu.h"

namespace reprise::models {

SwiGlu::SwiGlu(const SwiGluSpec& spec, const Checkpoint& checkpoint)
    : activation_(spec.activation),
      gate_multiplier_(spec.gate_multiplier),
      gate_(checkpoint, spec.name + ".gate_proj"),
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
    const std::size_t count = (end - begin) * size;
    if (gate_multiplier_ != 1) step.kernels.scale(gate_multiplier_, gate + begin * size, count);
    if (activation_ == Activation::kGelu) {
      step.kernels.gate_gelu(gate + begin * size, up + begin * size, count);
    } else {
      step.kernels.swiglu(gate + begin * size, up + begin * size, up + begin * size, count);
    }
  });
  down_.apply(step, up, rows, y);
  step.scratch.reset(mark);
}

}  // namespace reprise::models
